// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/journal_change.hpp"
#include "recorder/pipeline.hpp"
#include "recorder/recovery.hpp"
#include "tests/support/model_disk.hpp"
#include "tests/support/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace relay::tests {

class FakeClock final : public recorder::Clock {
public:
    [[nodiscard]] layout::Timestamp now() const override { return {1'800'000'000'000 + steady}; }
    [[nodiscard]] std::int64_t steady_us() const override { return steady * 1'000; }

    std::int64_t steady = 1'000;
};

// Three disks in memory, a pipeline over them, and what became of the work. A process is begun with
// recover() and ended with kill() or cut_power().
class RecorderWorld : public recorder::PipelineListener {
public:
    explicit RecorderWorld(std::uint64_t seed = 1)
        : disk({"/one", "/two", "/journal"}, seed), random_(seed) {
        disk.user_write("/one/repo/README", "");
        disk.user_write("/two/repo/README", "");
        limits.journal.segment_bytes = 64 * 1024;
        limits.journal.segments_max = 3;
    }
    ~RecorderWorld() override { kill(); }
    RecorderWorld(const RecorderWorld&) = delete;
    RecorderWorld& operator=(const RecorderWorld&) = delete;

    void settled(std::vector<recorder::Outcome> outcomes) override {
        for (recorder::Outcome& outcome : outcomes) {
            if (disk.has_power()) {
                all.push_back(outcome.verdict);
                reasons.push_back(outcome.reason);
                verdicts[outcome.waiter.connection] = outcome.verdict;
                order.push_back(outcome.waiter.connection);
            }
        }
    }
    void submitted() override { ++calls_to_commit; }
    void noticed(recorder::Notice notice) override { notices.push_back(std::move(notice)); }

    recorder::Result<recorder::RecoveryReport> recover() {
        kill();
        pipeline = std::make_unique<recorder::Pipeline>(disk, clock, *this, limits);
        recorder::RecoveryOptions options;
        options.journal_directory = "/journal";
        options.own_pid = 42;
        options.random = [this] {
            return random_.next();
        };
        return recorder::Recovery(*pipeline).run(options);
    }
    recorder::RecoveryReport must_recover() {
        auto report = recover();
        REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.error().context));
        return std::move(report.value());
    }

    void kill() {
        pipeline.reset();
        disk.power_on();
    }
    void cut_power(std::uint64_t seed = 7) {
        Random random(seed);
        disk.lose_power(random);
        kill();
    }

    static layout::Ulid ulid(std::uint8_t number) {
        layout::Ulid id;
        id.bytes[5] = 1;
        id.bytes[15] = number;
        return id;
    }
    static layout::Claim claim(const std::string& mount) {
        layout::Claim claim;
        claim.anchor = mount + "/repo";
        claim.below = ".agent-relay";
        claim.is_repo = true;
        claim.owner = "1 2 3";
        return claim;
    }
    static std::string root(std::uint8_t number, const std::string& mount) {
        return claim(mount).session_directory(ulid(number)) + "/";
    }

    std::shared_ptr<recorder::SessionFiles> files(std::uint8_t number, const std::string& mount) {
        const auto volume = recorder::Pipeline::volume_name(disk, claim(mount));
        return pipeline->files_for(
            ulid(number),
            claim(mount),
            volume.ok() ? volume.value() : recorder::Pipeline::volume_name(claim(mount)));
    }

    // A change with these effects. `ticket` finds its verdict again.
    void submit(
        const std::shared_ptr<recorder::SessionFiles>& to,
        std::uint64_t ticket,
        const std::vector<layout::Effect>& effects,
        bool create = false,
        bool finishes = false) {
        recorder::WorkItem item;
        item.files = to;
        item.finishes = finishes;
        const auto seq = static_cast<std::int64_t>(ticket);
        layout::ChangeWriter writer(
            item.change, {.session = to->id, .client_seq = seq, .event_seq = seq});
        if (create) {
            layout::Claim begun = to->initial_claim;
            begun.create = true;
            writer.add_claim(begun);
        }
        for (const layout::Effect& effect : effects) {
            writer.add(effect);
        }
        writer.finish();
        item.waiter.connection = ticket;
        pipeline->submit(std::move(item));
    }

    static layout::Effect
    append(std::string_view name, std::int64_t offset, std::string_view data) {
        return {.kind = layout::EffectKind::append, .name = name, .data = data, .offset = offset};
    }
    static layout::Effect replace(std::string_view name, std::string_view data) {
        return {
            .kind = layout::EffectKind::replace_synced, .name = name, .data = data, .offset = 0};
    }

    // Every step once, and applying as far as it goes.
    void turn_wheels() {
        static_cast<void>(pipeline->commit_step());
        for (const auto& volume : pipeline->volumes()) {
            while (volume->apply_step() || volume->seal_step()) {
            }
            static_cast<void>(volume->sync_step());
        }
        static_cast<void>(pipeline->checkpoint_step());
    }
    void checkpoint() {
        const std::uint64_t ticket = pipeline->request_checkpoint();
        for (int round = 0; round < 20 && pipeline->checkpoints_done() < ticket; ++round) {
            turn_wheels();
        }
        REQUIRE(pipeline->checkpoints_done() >= ticket);
    }
    void run_for(std::int64_t ms) {
        for (std::int64_t passed = 0; passed < ms; passed += 200) {
            turn_wheels();
            clock.steady += 200;
        }
    }

    [[nodiscard]] recorder::Verdict verdict(std::uint64_t ticket) const {
        REQUIRE_MESSAGE(verdicts.contains(ticket), "no outcome of " << ticket);
        return verdicts.at(ticket);
    }
    [[nodiscard]] std::string seen(const std::string& path) const {
        return disk.seen(path).value_or("(absent)");
    }
    [[nodiscard]] std::int64_t spills() const {
        std::int64_t count = 0;
        for (const auto& [path, content] : disk.seen_tree("/journal")) {
            count += path.ends_with(".spill") ? 1 : 0;
        }
        return count;
    }

    ModelDisk disk;
    FakeClock clock;
    recorder::PipelineLimits limits;
    std::unique_ptr<recorder::Pipeline> pipeline;
    std::vector<recorder::Verdict> all;
    std::vector<std::string> reasons;
    std::map<std::uint64_t, recorder::Verdict> verdicts;
    std::vector<std::uint64_t> order;  // in which they were told
    std::atomic<int> calls_to_commit = 0;
    std::vector<recorder::Notice> notices;

private:
    Random random_;
};

}  // namespace relay::tests
