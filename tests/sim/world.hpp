// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/event.hpp"
#include "layout/journal_batch.hpp"
#include "recorder/pipeline.hpp"
#include "recorder/recovery.hpp"
#include "recorder/session.hpp"
#include "recorder/session_loader.hpp"
#include "tests/sim/planted_bug.hpp"
#include "tests/sim/sent_event.hpp"
#include "tests/sim/session_oracle.hpp"
#include "tests/sim/simulation.hpp"
#include "tests/support/model_disk.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace relay::tests {

using layout::Ulid;
using recorder::Pipeline;
using recorder::Session;
using recorder::SessionFiles;
using recorder::SessionState;
using recorder::Step;
using recorder::Verdict;
using Op = ModelDisk::Op;

inline constexpr std::int64_t segment_bytes = 64 * 1024;
// A small world's: writing zeroes and reading them back was a quarter of its work.
inline constexpr std::int64_t segment_bytes_small = 32 * 1024;
inline constexpr std::size_t under_way_max = 3;  // threads in the middle of something
inline constexpr int crowded_commits = 40;       // enough to use every segment again
inline const std::string journal_mount = "/journal";
inline const std::array<std::string, 2> session_mounts{"/one", "/two"};

class SimulatedClock final : public recorder::Clock {
public:
    [[nodiscard]] layout::Timestamp now() const override { return {wall_ms}; }
    [[nodiscard]] std::int64_t steady_us() const override { return steady * 1'000; }

    std::int64_t wall_ms = 1'800'000'000'000;
    std::int64_t steady = 1'000;
};

struct Client {
    Ulid id;
    layout::Claim claim;
    std::string root;  // the session's directory with a slash at its end
    bool numbered = true;
    std::vector<Sent> sent;
    std::size_t next = 0;  // the first of them to send (again)
    SessionOracle oracle;

    std::unique_ptr<Session> session;
    std::shared_ptr<SessionFiles> files;
    bool exists = false;          // on disk, or will once everything submitted is applied
    bool waits_for_disk = false;  // recovery could not reach its files
    bool let_go = false;          // its files alone tell everything
    bool deferred = false;        // since the last time the volume was well

    bool deleted = false;                        // by its user
    std::set<std::string, std::less<>> meddled;  // files that the user changed
};

class Simulation::World final : public recorder::PipelineListener {
public:
    World(std::uint64_t seed, SimulationOptions options);
    ~World() override;
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    std::string run();
    std::string run_struck();
    SimulationCounts counts;

    void settled(std::vector<recorder::Outcome> outcomes) override;
    void noticed(recorder::Notice notice) override;

private:
    // Scenario.
    recorder::Disk& open_door();
    void make_clients();
    void live();
    void act();
    // What each thread of the process does. One that is under way already is not begun again.
    enum class Work { commit, commit_here, apply, seal, sync, checkpoint };
    void step(Work work, const std::shared_ptr<recorder::Volume>& volume = nullptr);
    void step_some(Work work);
    [[nodiscard]] bool may_begin(Work work, const recorder::Volume* volume) const;
    void act_meanwhile(const std::string& mount_point);
    void die();
    void stop_orderly();
    void settle_everything();
    void drain();
    void final_checks();

    // Clients.
    void send_something();
    void send(Client& client);
    [[nodiscard]] bool send_start(Client& client);
    Sent invent(const Client& client);
    std::string text_for(const Client& client, std::size_t size_max);
    void take(Client& client, Step step);
    void attach(Client& client);
    void let_go(Client& client);
    bool adopt(Client& client);
    void catch_up(Client& client);
    void handle_notices();
    void greet_waiting();

    // Process.
    void start_process();
    void end_process();
    void recover();
    bool try_recovery(bool may_fail);
    void recover_once_more();
    recorder::RecoveryOptions recovery_options();
    void meet_recovered(recorder::RecoveryReport& report);
    void resume_client(Client& client, recorder::RecoveryReport& report);
    void continue_from(Client& client, std::size_t count);

    // Faults.
    void disturb();
    void disturb_journal();
    void disturb_recovery();
    void strike_checkpoint();
    void strike(const ModelDisk::Fault& fault);
    void meddle();
    void heal();
    void plan_end();
    void plan_end_at(std::int64_t operation);

    // Checks.
    void fail(const std::string& what);
    void watch(Op op, const std::string& mount_point);
    void check_batches_are_durable();
    void check_documents();
    void check_sealed_turns(const Client& client, const SessionOracle::Found& found);
    void check_visible(const Client& client, std::size_t number);
    void check_streams(const Client& client);
    void check_journal_size();
    [[nodiscard]] bool all_volumes_well() const;
    [[nodiscard]] SessionOracle::Found files_of(const Client& client) const;
    void say(const std::string& what) const;
    [[nodiscard]] bool running() const { return failure_.empty() && disk_.has_power(); }

    const std::uint64_t seed_;
    const SimulationOptions options_;
    Random random_;
    // Most bugs need few events, so most worlds are small; one in sixty-four is large, for the journal to fill,
    // for long histories, and for what needs many sessions.
    const bool small_;
    ModelDisk disk_;
    bool in_recovery_ = false;
    std::optional<BuggyDisk> buggy_disk_;
    recorder::Disk& door_;  // as the recorder sees the disks
    SimulatedClock clock_;
    recorder::PipelineLimits limits_;
    std::int64_t checkpoint_interval_ms_ = 1'000;
    std::size_t chunk_bytes_ = 0;  // 0: drawn for each chunk

    std::unique_ptr<Pipeline> pipeline_;
    std::vector<Client> clients_;
    std::vector<recorder::Notice> notices_;
    std::uint64_t counter_ = 0;
    std::optional<ModelDisk::Fault> planned_end_;
    bool ends_with_power_loss_ = false;
    bool process_must_end_ = false;
    std::vector<std::pair<Work, const recorder::Volume*>> under_way_;
    std::set<std::string> unmounted_;
    bool journal_is_held_ = false;
    bool sending_ = false;                // somebody, while others are under way
    std::uint32_t meanwhile_one_in_ = 0;  // system calls, on average
    bool journal_disturbed_ = false;
    // So many more steps: first a checkpoint is brought to its end, then come events and commits alone, and
    // then the end.
    int crowded_steps_ = 0;
    bool writeback_failed_ = false;
    bool look_at_journal_ = false;
    std::string failure_;
};

}  // namespace relay::tests
