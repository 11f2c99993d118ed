// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "recorder/session.hpp"
#include "tests/recorder/recorder_world.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>

namespace relay::tests {

// Speaks for a session through the production state machine and pipeline.
class Speaker {
public:
    Speaker(RecorderWorld& world, std::uint8_t number, const std::string& mount)
        : world_(world), files_(world.files(number, mount)) {
        recorder::SessionState state;
        state.meta.id = files_->id;
        state.meta.slug = "270115-quiet-harbor-" + std::to_string(number);
        state.meta.agent = "codex";
        state.claim = RecorderWorld::claim(mount);
        recorder::Step first;
        session_ = std::make_unique<recorder::Session>(
            recorder::Session::begin(std::move(state), 1, world.clock.now(), first));
        take(std::move(first));
    }

    void say(layout::EventBody body) {
        layout::Event event;
        event.seq = session_->last_client_seq() + 1;
        event.body = std::move(body);
        auto result = session_->handle(event, world_.clock.now());
        if (auto* const step = std::get_if<recorder::Step>(&result)) {
            take(std::move(*step));
        }
    }
    void output(std::string_view text) {
        say(layout::TurnBytes{
            .stream = layout::Stream::output, .channel = layout::Channel::text, .bytes = text});
    }

private:
    void take(recorder::Step step) {
        recorder::WorkItem item;
        item.files = files_;
        item.waiter.connection = ++ticket_;
        item.change = std::move(step.change);
        world_.pipeline->submit(std::move(item));
        for (int round = 0; round < 3; ++round) {
            world_.turn_wheels();
        }
    }

    RecorderWorld& world_;
    std::shared_ptr<recorder::SessionFiles> files_;
    std::unique_ptr<recorder::Session> session_;
    std::uint64_t ticket_ = 0;
};

// Every file of a daemon that was killed with two sessions open: a sealed turn each, a checkpoint, and an
// open turn behind it. Always the same.
inline std::map<std::string, std::string> left_behind() {
    RecorderWorld world;
    static_cast<void>(world.must_recover());
    {
        Speaker one(world, 1, "/one");
        Speaker two(world, 2, "/two");
        for (Speaker* const speaker : {&one, &two}) {
            speaker->say(layout::TurnStart{.prompt = "first", .model = std::nullopt});
            speaker->output("an answer");
            speaker->say(layout::TurnEnd{});
        }
        world.checkpoint();
        for (Speaker* const speaker : {&one, &two}) {
            speaker->say(layout::TurnStart{.prompt = "second", .model = std::nullopt});
            speaker->output("the beginning of an answer");
        }
    }
    world.kill();
    std::map<std::string, std::string> all;
    for (const std::string mount : {"/one", "/two", "/journal"}) {
        for (auto& [path, content] : world.disk.seen_tree(mount)) {
            if (!path.ends_with('/')) {
                all.emplace(path, content);
            }
        }
    }
    return all;
}

}  // namespace relay::tests
