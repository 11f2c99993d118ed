// SPDX-License-Identifier: Apache-2.0
#include "layout/slug.hpp"

#include <array>

namespace relay::layout {

namespace {

// The slugs of recorded sessions were drawn from these lists: an id proposes another slug when a word
// moves.
constexpr std::array<std::string_view, 256> adjectives{
    // clang-format off
    "able", "agile", "airy", "alert", "amber", "ample", "apt", "ardent", "awake", "aware",
    "azure", "balmy", "blithe", "blue", "bold", "brave", "breezy", "bright", "brisk", "bronze",
    "calm", "candid", "caring", "cheery", "chief", "civic", "civil", "classic", "clean",
    "clear", "clever", "cloudy", "coastal", "cobalt", "cool", "copper", "coral", "cordial",
    "cosmic", "cosy", "creamy", "crisp", "curious", "daily", "dapper", "daring", "deep", "deft",
    "direct", "distant", "dreamy", "driven", "dulcet", "eager", "early", "earnest", "earthy",
    "eastern", "easy", "elegant", "epic", "equal", "eternal", "exact", "fair", "faithful",
    "fancy", "festive", "fine", "firm", "first", "fleet", "floral", "fluent", "flying", "fond",
    "free", "fresh", "friendly", "frosty", "frugal", "gallant", "genial", "gentle", "genuine",
    "gilded", "glad", "global", "glossy", "golden", "graceful", "grand", "grateful", "great",
    "green", "handy", "happy", "hardy", "hearty", "helpful", "honest", "hopeful", "humble",
    "ideal", "ivory", "jaunty", "jolly", "jovial", "joyful", "joyous", "keen", "kind", "kindly",
    "leafy", "limber", "lithe", "lively", "lofty", "loyal", "lucid", "lucky", "lunar", "magic",
    "marine", "mellow", "merry", "mighty", "mild", "mindful", "minty", "misty", "modern",
    "modest", "moonlit", "mossy", "musical", "natural", "neat", "nifty", "nimble", "noble",
    "northern", "notable", "novel", "open", "orderly", "patient", "peaceful", "pearly", "pithy",
    "placid", "playful", "plucky", "plush", "poetic", "polar", "polite", "prime", "proper",
    "proud", "prudent", "pure", "purple", "quaint", "quick", "quiet", "radiant", "rainy",
    "rapid", "ready", "regal", "robust", "rosy", "round", "royal", "ruby", "russet", "rustic",
    "sage", "sandy", "scenic", "serene", "shady", "sharp", "shiny", "silent", "silken",
    "silver", "simple", "sincere", "sleek", "smart", "smooth", "snowy", "snug", "social",
    "soft", "solar", "solid", "sonic", "sound", "southern", "amiable", "spirited", "spry",
    "stable", "starry", "stately", "steady", "sterling", "still", "stoic", "stormy", "stout",
    "sturdy", "subtle", "summer", "sunlit", "sunny", "supple", "sure", "sweet", "swift", "tall",
    "tender", "tidal", "tidy", "timely", "tranquil", "trim", "true", "trusty", "upbeat",
    "urban", "useful", "valiant", "vast", "velvet", "verdant", "vernal", "vibrant", "vital",
    "vivid", "vocal", "warm", "wavy", "western", "windy", "winged", "winter", "wise", "witty",
    "wooden", "worthy", "zesty", "zippy",
    // clang-format on
};

constexpr std::array<std::string_view, 256> nouns{
    // clang-format off
    "acorn", "alcove", "almond", "anchor", "anvil", "apple", "apricot", "arbor", "arch",
    "arrow", "aspen", "atlas", "aurora", "badge", "badger", "bamboo", "banjo", "barley",
    "basil", "basin", "bay", "beacon", "lantern", "bell", "berry", "birch", "bison", "blossom",
    "bluff", "bonsai", "bridge", "brook", "bugle", "cabin", "cactus", "canal", "candle",
    "canoe", "canopy", "canvas", "canyon", "caravan", "cardinal", "castle", "cedar", "cello",
    "lagoon", "citrus", "clarinet", "cliff", "clover", "coast", "comet", "compass", "condor",
    "conifer", "cove", "coyote", "crane", "crater", "creek", "crocus", "crystal", "curlew",
    "cypress", "daisy", "dawn", "deer", "delta", "dolphin", "dove", "dune", "eagle", "echo",
    "egret", "elk", "elm", "ember", "emerald", "falcon", "fern", "ferry", "fiddle", "fig",
    "finch", "fjord", "flame", "flute", "forest", "forge", "fountain", "fox", "galaxy",
    "garden", "garnet", "gazelle", "geyser", "ginger", "glacier", "glade", "glen", "globe",
    "gorge", "granite", "grape", "grotto", "grove", "guitar", "gull", "hamlet", "harbor",
    "harp", "harvest", "hawk", "hazel", "heath", "heron", "honey", "horizon", "iris", "island",
    "ivy", "jaguar", "jasmine", "jasper", "juniper", "kestrel", "kite", "laurel", "lemon",
    "lichen", "lilac", "lily", "linden", "lion", "llama", "lodge", "lotus", "lute", "lynx",
    "magnolia", "magpie", "mango", "maple", "marble", "marsh", "meadow", "melon", "mesa",
    "meteor", "mint", "moon", "moose", "moss", "mountain", "nebula", "nectar", "nest", "nutmeg",
    "oak", "oasis", "ocean", "olive", "onyx", "opal", "orbit", "orchard", "orchid", "oriole",
    "osprey", "otter", "owl", "panda", "papaya", "parrot", "peach", "peak", "pear", "pearl",
    "pebble", "pelican", "peony", "pepper", "petal", "pine", "planet", "plateau", "plum",
    "pond", "poplar", "poppy", "prairie", "puffin", "pumpkin", "quail", "quarry", "quartz",
    "quill", "raven", "reed", "reef", "ridge", "river", "robin", "rose", "saffron", "sail",
    "sapphire", "savanna", "sequoia", "shell", "shore", "sierra", "sky", "slope", "sonata",
    "sparrow", "spruce", "star", "stone", "stork", "stream", "summit", "sundial", "sunrise",
    "swallow", "swan", "teal", "terrace", "thicket", "thistle", "thrush", "thyme", "tide",
    "tiger", "timber", "topaz", "trail", "tulip", "tundra", "turtle", "valley", "village",
    "vine", "violet", "violin", "walnut", "walrus", "wave", "wheat", "willow", "wren", "yarrow",
    "zebra", "zenith", "zephyr",
    // clang-format on
};

}  // namespace

std::string slug_for(const Ulid& ulid, int attempt) {
    std::string slug = format_slug_date(ulid.time());
    slug += '-';
    slug += adjectives[ulid.bytes[14]];
    slug += '-';
    slug += nouns[ulid.bytes[15]];
    if (attempt > 1) {
        slug += '-';
        slug += std::to_string(attempt);
    }
    return slug;
}

std::span<const std::string_view> slug_adjectives() {
    return adjectives;
}

std::span<const std::string_view> slug_nouns() {
    return nouns;
}

}  // namespace relay::layout
