// SPDX-License-Identifier: Apache-2.0
// What must hold.
#include "tests/sim/world.hpp"

#include <map>

namespace relay::tests {

// Nothing reaches a session's file before the batch it comes from is durable. Looked at with the first
// change of a session's disk in each step, and in recovery, where it is broken most easily.
void Simulation::World::watch(Op op, const std::string& mount_point) {
    const bool changes = op == Op::write || op == Op::rename || op == Op::make_directory
                         || op == Op::truncate || op == Op::remove;
    if (look_at_journal_ && changes && mount_point != journal_mount) {
        look_at_journal_ = false;
        check_batches_are_durable();
    }
    if (!under_way_.empty() && under_way_.size() < under_way_max && !sending_
        && random_.chance(meanwhile_one_in_)) {
        act_meanwhile(mount_point);
    }
}

void Simulation::World::check_batches_are_durable() {
    for (int number = 1; number <= 4; ++number) {
        const std::string path = journal_mount + "/segment-000" + std::to_string(number);
        if (disk_.is_settled(path)) {
            continue;
        }
        const std::string_view seen = disk_.peek(path).value_or("");
        for (std::size_t offset = 0; offset < seen.size(); offset += layout::journal_block_bytes) {
            const std::string_view bytes = seen.substr(offset);
            const auto batch = layout::decode_batch(bytes);
            if (!batch.ok() || batch.value().lsn > pipeline_->durable_lsn()) {
                continue;
            }
            const std::size_t size = layout::batch_header_bytes + batch.value().payload_bytes;
            if (!disk_.is_durable(path, static_cast<std::int64_t>(offset), bytes.substr(0, size))) {
                fail(
                    "batch " + std::to_string(batch.value().lsn)
                    + " is applied and not durable in the journal");
            }
        }
    }
}

// Directly after a power loss, before any recovery.
void Simulation::World::check_documents() {
    for (const Client& client : clients_) {
        if (client.deleted || !failure_.empty()) {
            continue;
        }
        const SessionOracle::Found files = files_of(client);
        for (const auto& [name, content] : files) {
            const bool document =
                name == "meta.json" || name == "resume.json" || name.ends_with("-state.json");
            if (document && !client.meddled.contains(name)
                && !client.oracle.knows_version(name, content)) {
                fail(
                    "after a power loss " + client.root + name
                    + " is no version that was ever written: '"
                    + std::string(content.substr(0, 200)) + "'");
            }
        }
        if (client.meddled.empty() && !writeback_failed_) {
            check_sealed_turns(client, files);
        }
    }
}

// A turn with a seal is complete without recovery.
void Simulation::World::check_sealed_turns(
    const Client& client, const SessionOracle::Found& found) {
    std::optional<SessionOracle::Files> expected;
    for (const auto& [name, content] : found) {
        if (!name.ends_with("-state.json")) {
            continue;
        }
        if (!expected) {
            expected = client.oracle.outcome();
        }
        const std::string stem =
            name.substr(0, name.size() - std::string_view("state.json").size());
        for (const char* const part : {"prompt.md", "output.md", "stderr.log", "diff.patch"}) {
            const auto wanted = expected->find(stem + part);
            const auto present = found.find(stem + part);
            if (wanted != expected->end()
                && (present == found.end() || present->second != wanted->second)) {
                fail(
                    "after a power loss the sealed " + client.root + stem + part
                    + " is not complete");
            }
        }
    }
}

void Simulation::World::check_visible(const Client& client, std::size_t number) {
    if (client.deleted || !client.meddled.empty()) {
        return;
    }
    layout::ChangeReader reader(client.oracle.change(number));
    const auto change = reader.next();
    layout::EffectReader effects(*change);
    while (const auto effect = effects.next()) {
        if (effect->kind == layout::EffectKind::append && !effect->data.empty()) {
            const std::string_view seen =
                disk_.peek(client.root + std::string(effect->name)).value_or("");
            if (seen.size() < static_cast<std::size_t>(effect->offset)
                || !seen.substr(static_cast<std::size_t>(effect->offset))
                        .starts_with(effect->data)) {
                fail(
                    "acknowledged as visible and not to be seen: " + client.root
                    + std::string(effect->name) + " at " + std::to_string(effect->offset) + " of "
                    + std::to_string(seen.size()) + ": " + std::string(effect->data));
            }
        }
    }
}

namespace {

// How often the text stands there in quotes.
int quoted_in(std::string_view where, std::string_view text) {
    int count = 0;
    for (std::size_t at = where.find(text, 1); at != std::string_view::npos;
         at = where.find(text, at + 1)) {
        const std::size_t end = at + text.size();
        count += where[at - 1] == '"' && end < where.size() && where[end] == '"' ? 1 : 0;
    }
    return count;
}

}  // namespace

// What the client itself knows: each event once, in order, in its turn's file.
void Simulation::World::check_streams(const Client& client) {
    if (!client.numbered || !client.meddled.empty()) {
        return;
    }
    std::map<std::string, std::string> streams;
    const std::string_view timeline = disk_.peek(client.root + "events.jsonl").value_or("");
    std::int64_t turn = 0;
    for (const Sent& sent : client.sent) {
        if (sent.kind == Sent::Kind::turn) {
            ++turn;
            streams[layout::prompt_file(turn)] = sent.text;
            streams[layout::output_file(turn)];
        } else if (sent.kind == Sent::Kind::output) {
            streams[layout::output_file(turn)] += sent.text;
        } else if (sent.kind == Sent::Kind::stderr_log) {
            streams[layout::stderr_file(turn)] += sent.text;
        } else if (sent.kind == Sent::Kind::note || sent.kind == Sent::Kind::tool) {
            if (quoted_in(timeline, sent.text) != 1) {
                fail("an event is not exactly once in the timeline of " + client.root);
            }
        }
    }
    for (const auto& [name, expected] : streams) {
        if (disk_.peek(client.root + name) != expected) {
            fail("in the end " + client.root + name + " is not what its client sent");
        }
    }
}

void Simulation::World::check_journal_size() {
    std::int64_t segments = 0;
    for (const std::string& name : disk_.seen_names(journal_mount)) {
        segments += name.starts_with("segment-") ? 1 : 0;
    }
    if (segments > limits_.journal.segments_max) {
        fail("the journal has " + std::to_string(segments) + " segments");
    }
}

}  // namespace relay::tests
