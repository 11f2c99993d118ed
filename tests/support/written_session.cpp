// SPDX-License-Identifier: Apache-2.0
#include "tests/support/written_session.hpp"

#include "layout/event.hpp"
#include "layout/session_paths.hpp"
#include "layout/sha256.hpp"
#include "layout/slug.hpp"
#include "layout/timeline.hpp"
#include "layout/utf8.hpp"
#include "layout/zstd_stream.hpp"

#include <boost/filesystem.hpp>

#include <array>
#include <fstream>
#include <iterator>
#include <string_view>

namespace relay::tests {

namespace {

using layout::Timestamp;
using layout::Ulid;

constexpr std::int64_t first_ms = 1'793'491'200'000;  // 2026-11-01T00:00:00Z
constexpr std::int64_t minute_ms = 60'000;

void write_file(const std::string& path, std::string_view text) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
}

layout::FileSeal seal_of(std::string_view text) {
    layout::Sha256 hash;
    hash.update(text);
    return {static_cast<std::int64_t>(text.size()), hash.hex()};
}

// Lines of a timeline, numbered as they come.
class Timeline {
public:
    explicit Timeline(Timestamp begin) : at_(begin) {}

    template<typename Put>
    void add(std::string_view type, Put put) {
        layout::TimelineLine line(text_, seq_++, at_, type);
        put(line.object());
        line.finish();
        at_.ms += 1000;
    }
    void stream(std::int64_t turn, layout::Stream stream, std::string_view text) {
        layout::StreamRun run;
        run.stream = stream;
        run.turn = turn;
        run.bytes = static_cast<std::int64_t>(text.size());
        run.seq = seq_++;
        run.at = at_;
        layout::append_stream_line(text_, run);
    }
    [[nodiscard]] const std::string& text() const { return text_; }

private:
    std::string text_;
    std::int64_t seq_ = 1;
    Timestamp at_;
};

void add_turn(Timeline& timeline, std::int64_t number, const WrittenTurn& turn) {
    timeline.add("turn.start", [&](layout::JsonObject& object) { object.integer("turn", number); });
    if (!turn.output.empty()) {
        timeline.stream(number, layout::Stream::output, turn.output);
    }
    if (turn.stderr_log) {
        timeline.stream(number, layout::Stream::stderr_log, *turn.stderr_log);
    }
    if (turn.sealed) {
        timeline.add("turn.end", [&](layout::JsonObject& object) {
            object.integer("turn", number);
            object.string("status", "completed");
        });
    }
}

// Three made-up words of a vocabulary of some ten thousand, so that an index of them is like one of real text.
std::string words_of(std::uint64_t seed) {
    constexpr std::array<std::string_view, 22> syllables{
        "ba", "cor", "de",  "fil", "gu",  "har", "in",  "jo", "ket", "lo", "mar",
        "ne", "or",  "pas", "qui", "ret", "sta", "tro", "un", "vel", "wi", "xe"};
    std::string words;
    for (int word = 0; word < 3; ++word) {
        words += ' ';
        for (int syllable = 0; syllable < 3; ++syllable) {
            seed = seed * 6364136223846793005U + 1442695040888963407U;
            words += syllables[(seed >> 33U) % syllables.size()];
        }
    }
    return words;
}

}  // namespace

layout::Meta example_meta(std::int64_t number) {
    constexpr std::array agents{"claude-code", "codex", "gemini"};
    layout::Meta meta;
    const auto seed = static_cast<std::uint64_t>(number) * 0x9E3779B97F4A7C15ULL;
    layout::UlidSource ids([seed](std::uint8_t* into, std::size_t size) {
        std::uint64_t state = seed;
        for (std::size_t at = 0; at < size; ++at) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            into[at] = static_cast<std::uint8_t>(state >> 56);
        }
    });
    meta.started_at = Timestamp{first_ms + number * minute_ms};
    meta.updated_at = Timestamp{meta.started_at.ms + 30'000};
    meta.ended_at = meta.updated_at;
    meta.id = ids.next(meta.started_at);
    meta.slug = layout::slug_for(meta.id, 1);
    meta.status = layout::SessionStatus::completed;
    meta.agent = agents[static_cast<std::size_t>(number) % agents.size()];
    meta.model = "model-1";
    meta.command = {meta.agent, "--print", "--model", "model-1"};
    meta.cwd = "/home/ann/projects/relay";
    meta.repo = layout::Repo{meta.cwd, "main", std::string(40, 'a')};
    meta.user = "ann";
    meta.host = "harbor";
    meta.pid = 4000 + number;
    meta.exit_code = 0;
    meta.objective =
        "Task " + std::to_string(number)
        + ": find out why the parser drops the last line of a file that does not end in "
          "a newline, and mend it with a test.";
    meta.preview = layout::one_line(*meta.objective, 120);
    meta.tokens.input = 1000 + number;
    meta.tokens.output = 100;
    meta.tokens.total = 1100 + number;
    meta.cost_usd = 0.25;
    meta.capture.last_event_at = meta.updated_at;
    meta.capture.last_seq = 12;
    return meta;
}

std::string write_session(
    const std::string& sessions_directory,
    layout::Meta meta,
    const std::vector<WrittenTurn>& turns) {
    const std::string directory = sessions_directory + "/" + meta.id.text();
    boost::filesystem::create_directories(directory + "/turns");
    Timeline timeline(meta.started_at);
    timeline.add("session.start", [&](layout::JsonObject& object) {
        object.string("agent", meta.agent);
        object.string("cwd", meta.cwd);
    });
    std::string chain(layout::chain_origin);
    meta.turn_count = 0;
    meta.current_turn.reset();
    for (std::size_t at = 0; at < turns.size(); ++at) {
        const WrittenTurn& turn = turns[at];
        const auto number = static_cast<std::int64_t>(at) + 1;
        write_file(directory + "/" + layout::prompt_file(number), turn.prompt);
        write_file(directory + "/" + layout::output_file(number), turn.output);
        layout::TurnState state;
        if (turn.stderr_log) {
            write_file(directory + "/" + layout::stderr_file(number), *turn.stderr_log);
            state.stderr_log = seal_of(*turn.stderr_log);
        }
        add_turn(timeline, number, turn);
        if (!turn.sealed) {
            meta.current_turn = number;
            continue;
        }
        state.turn = number;
        state.status = "completed";
        state.started_at = meta.started_at;
        state.ended_at = meta.updated_at;
        state.duration_ms = state.ended_at.ms - state.started_at.ms;
        state.prompt = seal_of(turn.prompt);
        state.output = seal_of(turn.output);
        const layout::SealedState sealed = layout::encode_turn_state(state, chain);
        chain = sealed.chain;
        write_file(directory + "/" + layout::state_file(number), sealed.text);
        ++meta.turn_count;
        meta.chain = chain;
    }
    if (meta.status == layout::SessionStatus::completed) {
        timeline.add("session.end", [&](layout::JsonObject& object) {
            object.integer_or_null("exit_code", meta.exit_code);
        });
    } else if (meta.status == layout::SessionStatus::checkpointed) {
        timeline.add("session.checkpoint", [&](layout::JsonObject& object) {
            object.string("reason", meta.checkpoint_reason.value_or("manual"));
        });
    }
    write_file(directory + "/events.jsonl", timeline.text());
    write_file(directory + "/meta.json", layout::encode_meta(meta));
    return directory;
}

void compress_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    std::string compressed;
    layout::ZstdWriter writer;
    writer.add(text, compressed);
    writer.finish(compressed);
    std::ofstream(layout::compressed_file(path), std::ios::binary) << compressed;
    boost::filesystem::remove(path);
}

void write_many_sessions(
    const std::string& sessions_directory,
    std::int64_t count,
    std::size_t output_bytes,
    std::size_t turns) {
    for (std::int64_t number = 1; number <= count; ++number) {
        std::vector<WrittenTurn> written(turns);
        std::uint64_t seed = static_cast<std::uint64_t>(number) << 32U;
        for (WrittenTurn& turn : written) {
            turn.prompt = *example_meta(number).objective;
            for (std::size_t line = 1; turn.output.size() < output_bytes; ++line) {
                turn.output +=
                    "line " + std::to_string(line) + " of session " + std::to_string(number)
                    + ": the quick brown fox jumps over the lazy dog" + words_of(++seed) + "\n";
            }
        }
        static_cast<void>(write_session(sessions_directory, example_meta(number), written));
    }
}

}  // namespace relay::tests
