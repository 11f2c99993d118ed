// SPDX-License-Identifier: Apache-2.0

// Any bytes as the documents of a session: each reader takes or refuses them, what was taken is written
// and read back to the same text, and a session of such documents is loaded or refused.

#include "layout/documents.hpp"
#include "recorder/session.hpp"
#include "recorder/session_loader.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "tests/support/model_disk.hpp"

#include <array>
#include <string>

namespace relay::tests {
namespace {

void read_alone(std::string_view text) {
    const auto meta = layout::decode_meta(text);
    if (meta.ok()) {
        const std::string once = layout::encode_meta(meta.value());
        const auto again = layout::decode_meta(once);
        HOLDS(again.ok());
        HOLDS(layout::encode_meta(again.value()) == once);
    }
    const auto state = layout::decode_turn_state(text);
    if (state.ok()) {
        const layout::SealedState once =
            layout::encode_turn_state(state.value(), layout::chain_origin);
        const auto again = layout::decode_turn_state(once.text);
        HOLDS(again.ok());
        HOLDS(layout::encode_turn_state(again.value(), layout::chain_origin).text == once.text);
        const auto chain = layout::check_chain(once.text, layout::chain_origin);
        HOLDS(chain.ok() && chain.value().stated == chain.value().computed);
    }
    static_cast<void>(layout::check_chain(text, layout::chain_origin));
}

}  // namespace
}  // namespace relay::tests

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace relay;
    using namespace relay::tests;
    FuzzInput input(data, size);
    const std::uint8_t present = input.byte();
    read_alone(input.rest());

    constexpr std::array<std::string_view, 7> names{
        "meta.json",
        "events.jsonl",
        "turns/001-state.json",
        "turns/002-prompt.md",
        "turns/002-output.md",
        "turns/002-stderr.log",
        "resume.json"};
    ModelDisk disk({"/store"});
    disk.user_write("/store/session/turns/001-prompt.md", "p");
    for (std::size_t index = 0; index < names.size(); ++index) {
        if ((present >> index & 1) != 0) {
            const std::size_t bytes = input.number() % (size + 1);
            disk.user_write("/store/session/" + std::string(names[index]), input.bytes(bytes));
        }
    }
    {
        auto directory = disk.open_directory("/store/session");
        HOLDS(directory.ok());
        layout::Claim claim;
        claim.anchor = "/store";
        const auto loaded = recorder::load_session(*directory.value(), claim, 0, 0);
        HOLDS(loaded.ok() || !loaded.error().context.empty());
    }
    HOLDS(disk.open_handles() == 0);
    return 0;
}
