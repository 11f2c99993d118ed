// SPDX-License-Identifier: Apache-2.0

// The way of an event through the production recorder, on one thread, with nothing that depends on time: what
// tests/bench/event_cost.py counts the instructions of. Everything but the socket is the daemon's own.

#include "layout/event.hpp"
#include "layout/redactor.hpp"
#include "recorder/pipeline.hpp"
#include "recorder/posix_disk.hpp"
#include "recorder/recorder.hpp"
#include "recorder/recovery.hpp"
#include "tests/bench/turn_work.hpp"
#include "tests/support/temporary_directory.hpp"

#include <boost/filesystem.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace relay::tests {
namespace {

class StandingClock final : public recorder::Clock {
public:
    [[nodiscard]] layout::Timestamp now() const override { return {1'800'000'000'000}; }
    [[nodiscard]] std::int64_t steady_us() const override { return 1'000'000; }
};

class Answers final : public recorder::PipelineListener {
public:
    void settled(std::vector<recorder::Outcome> outcomes) override {
        for (recorder::Outcome& outcome : outcomes) {
            visible += outcome.verdict == recorder::Verdict::visible ? 1 : 0;
            waiting.push_back(std::move(outcome));
        }
    }
    void noticed(recorder::Notice /*notice*/) override {}

    std::vector<recorder::Outcome> waiting;
    int visible = 0;
};

[[noreturn]] void fail(const std::string& reason) {
    std::fprintf(stderr, "relay_event_cost: %s\n", reason.c_str());
    std::exit(1);
}

class Way {
public:
    explicit Way(const std::string& directory)
        : pipeline_(disk_, clock_, answers_, {}), recorder_(pipeline_, clock_) {
        boost::filesystem::create_directories(directory + "/journal");
        recorder::RecoveryOptions options;
        options.journal_directory = directory + "/journal";
        options.unsafe_journal = true;
        options.random = [] {
            return std::uint64_t{7};
        };
        if (auto report = recorder::Recovery(pipeline_).run(options); !report.ok()) {
            fail(report.error().context);
        }
        auto redactor = layout::Redactor::create();
        if (!redactor.ok()) {
            fail(redactor.error().context);
        }
        recorder_.set_redactor(redactor.value());
        plan_.id.bytes[15] = 1;
        plan_.claim.anchor = directory;
        plan_.claim.below = "state";
        plan_.claim.owner = "1 2 3";
        plan_.meta.id = plan_.id;
        plan_.meta.slug = "270115-quiet-harbor";
        plan_.meta.agent = "bench";
        plan_.meta.cwd = plan_.claim.anchor;
        auto volume = recorder::Pipeline::volume_name(disk_, plan_.claim);
        if (!volume.ok()) {
            fail(volume.error().context);
        }
        plan_.volume = volume.value();
    }

    void start() {
        const layout::Event event =
            decode(R"({"id":1,"type":"session.start","agent":"bench","cwd":"/"})");
        expect_pending(recorder_.start(event, plan_, speaker, 0));
        drain();
    }

    void turn() {
        TurnCursor cursor;
        for (int number = 0; number < events_a_turn; ++number) {
            const std::string& line = lines_[static_cast<std::size_t>(cursor.next())];
            expect_pending(recorder_.handle(decode(line), speaker, 0));
            drain();
        }
    }

    void use_session() {
        for (const Step step : {Step::prompt, Step::chunk, Step::standard_error, Step::end}) {
            lines_[static_cast<std::size_t>(step)] =
                R"({"id":1,"type":")" + std::string(type_of(step)) + R"(","session":")"
                + plan_.id.text() + R"(",)" + members_of(step);
        }
    }

    [[nodiscard]] int visible() const { return answers_.visible; }

private:
    static constexpr recorder::Speaker speaker{.connection = 1, .pid = 0};

    layout::Event decode(std::string_view line) {
        auto decoded = decoder_.decode(line);
        if (const auto* refusal = std::get_if<layout::Refusal>(&decoded)) {
            fail(refusal->message);
        }
        return std::get<layout::Event>(std::move(decoded));
    }

    static void expect_pending(const recorder::Reply& reply) {
        if (reply.kind != recorder::Reply::Kind::pending) {
            fail("an event was not taken: " + reply.refusal.message);
        }
    }

    void drain() {
        while (pipeline_.commit_here() == recorder::Pipeline::Commit::done) {
        }
        for (bool working = true; working;) {
            working = false;
            for (const auto& volume : pipeline_.volumes()) {
                working = volume->apply_step() || volume->seal_step() || working;
            }
        }
        for (const recorder::Outcome& outcome : std::exchange(answers_.waiting, {})) {
            recorder_.settled(outcome);
        }
    }

    recorder::PosixDisk disk_;
    StandingClock clock_;
    Answers answers_;
    recorder::Pipeline pipeline_;
    recorder::Recorder recorder_;
    layout::EventDecoder decoder_;
    recorder::SessionPlan plan_;
    std::array<std::string, 4> lines_;
};

}  // namespace
}  // namespace relay::tests

int main(int count, char** arguments) {
    using namespace relay::tests;
    const int turns = count == 2 ? std::atoi(arguments[1]) : 0;
    if (turns <= 0) {
        std::fprintf(stderr, "usage: relay_event_cost TURNS\n");
        return 2;
    }
    const TemporaryDirectory directory;
    Way way(directory.path());
    way.use_session();
    way.start();
    for (int turn = 0; turn < turns; ++turn) {
        way.turn();
    }
    if (way.visible() != 1 + turns * events_a_turn) {
        std::fprintf(stderr, "relay_event_cost: %d events are visible\n", way.visible());
        return 1;
    }
    return 0;
}
