// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/simulation.hpp"

#include "layout/event.hpp"
#include "layout/journal_batch.hpp"
#include "recorder/pipeline.hpp"
#include "recorder/recovery.hpp"
#include "recorder/session.hpp"
#include "recorder/session_loader.hpp"
#include "tests/sim/sent_event.hpp"
#include "tests/sim/session_oracle.hpp"
#include "tests/support/model_disk.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>
#include <variant>
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

void SimulationCounts::add(const SimulationCounts& other) {
    seeds += other.seeds;
    events += other.events;
    acks += other.acks;
    deferred += other.deferred;
    batches += other.batches;
    crashes += other.crashes;
    power_losses += other.power_losses;
    recoveries += other.recoveries;
    interrupted += other.interrupted;
    faults += other.faults;
}

std::string SimulationCounts::text() const {
    return std::to_string(seeds) + " seeds, " + std::to_string(events) + " events, "
           + std::to_string(acks) + " acks (" + std::to_string(deferred) + " deferred), "
           + std::to_string(batches) + " batches, " + std::to_string(crashes) + " crashes, "
           + std::to_string(power_losses) + " power losses, " + std::to_string(recoveries)
           + " recoveries (" + std::to_string(interrupted) + " more interrupted), "
           + std::to_string(faults) + " faults";
}

namespace {

constexpr std::int64_t segment_bytes = 64 * 1024;
const std::string journal_mount = "/journal";
const std::array<std::string, 2> session_mounts{"/one", "/two"};

class FakeClock final : public recorder::Clock {
public:
    [[nodiscard]] layout::Timestamp now() const override { return {wall_ms}; }
    [[nodiscard]] std::int64_t steady_ms() const override { return steady; }

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
    bool deferred = false;        // since the last time the volume was well

    bool deleted = false;                        // by its user
    std::set<std::string, std::less<>> meddled;  // files that the user changed
};

}  // namespace

class Simulation::World final : public recorder::PipelineListener {
public:
    World(std::uint64_t seed, SimulationOptions options);
    ~World() override;

    std::string run();
    SimulationCounts counts;

    void settled(std::vector<recorder::Outcome> outcomes) override;
    void noticed(recorder::Notice notice) override;

private:
    // Scenario.
    void make_clients();
    void live();
    void act();
    void die();
    void stop_orderly();
    void settle_everything();
    void drain();
    void final_checks();

    // Clients.
    void send_something();
    void send(Client& client);
    void send_start(Client& client);
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
    bool try_recovery(bool disturbed);
    void recover_once_more();
    recorder::RecoveryOptions recovery_options();
    void meet_recovered(recorder::RecoveryReport& report);
    void resume_client(Client& client, recorder::RecoveryReport& report);
    void continue_from(Client& client, std::size_t count);

    // Faults.
    void disturb();
    void strike(const ModelDisk::Fault& fault);
    void meddle();
    void heal();
    void plan_end();

    // Checks.
    void fail(const std::string& what);
    void watch(Op op, const std::string& mount_point);
    void check_batches_are_durable();
    void check_documents();
    void check_sealed_turns(const Client& client, const SessionOracle::Files& found);
    void check_visible(const Client& client, std::size_t number);
    void check_streams(const Client& client);
    void check_journal_size();
    [[nodiscard]] bool all_volumes_well() const;
    [[nodiscard]] SessionOracle::Files files_of(const Client& client) const;
    void say(const std::string& what) const;
    [[nodiscard]] bool running() const { return failure_.empty() && disk_.has_power(); }

    const std::uint64_t seed_;
    const SimulationOptions options_;
    Random random_;
    ModelDisk disk_;
    FakeClock clock_;
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
    bool journal_disturbed_ = false;
    bool writeback_failed_ = false;
    bool look_at_journal_ = false;
    std::string failure_;
};

Simulation::World::World(std::uint64_t seed, SimulationOptions options)
    : seed_(seed),
      options_(options),
      random_(Random::mixed(seed + 1)),
      disk_({session_mounts[0], session_mounts[1], journal_mount}, Random::mixed(seed + 77)) {
    limits_.journal.segment_bytes = segment_bytes;
    limits_.journal.segments_max = 3 + static_cast<std::int64_t>(random_.below(2));
    // A full journal disk is waited for: the refusal has a test of its own.
    limits_.no_space_patience_ms = std::int64_t{1} << 50;
    limits_.batch_bytes_max = random_.chance(3) ? 700 : 16'384;
    limits_.open_sessions_max = random_.chance(3) ? 2 : 1'000;
    checkpoint_interval_ms_ = 200 + static_cast<std::int64_t>(random_.below(3'000));
    chunk_bytes_ = random_.below(5) < 2 ? 32 : 0;
    disk_.set_observer([this](Op op, const std::string& mount_point) { watch(op, mount_point); });
    for (const std::string& mount : session_mounts) {
        disk_.user_write(mount + "/repo/README", "a repository");
        disk_.user_write(mount + "/home/notes", "a home");
    }
    disk_.user_write(journal_mount + "/.keep", "");
    make_clients();
}

Simulation::World::~World() {
    disk_.set_observer(nullptr);
    clients_.clear();
    pipeline_.reset();
}

void Simulation::World::say(const std::string& what) const {
    if (options_.verbose) {
        std::fprintf(
            stderr, "[%lld] %s\n", static_cast<long long>(disk_.operations()), what.c_str());
    }
}

void Simulation::World::fail(const std::string& what) {
    if (failure_.empty()) {
        failure_ = "seed " + std::to_string(seed_) + ": " + what;
        say("BROKEN: " + what);
    }
}

void Simulation::World::make_clients() {
    const std::size_t count = 2 + random_.below(5);
    layout::UlidSource ulids([this](std::uint8_t* into, std::size_t size) {
        for (std::size_t index = 0; index < size; ++index) {
            into[index] = static_cast<std::uint8_t>(random_.next());
        }
    });
    clients_.resize(count);
    for (Client& client : clients_) {
        const std::string& mount = session_mounts[random_.below(session_mounts.size())];
        client.id = ulids.next(clock_.now());
        client.claim.is_repo = !random_.chance(3);
        client.claim.anchor = mount + (client.claim.is_repo ? "/repo" : "/home");
        client.claim.below = client.claim.is_repo ? ".agent-relay" : "state/agent-relay";
        client.claim.owner = "1 2 3";
        client.root = client.claim.session_directory(client.id) + "/";
        client.numbered = !random_.chance(8);
    }
}

// -- clients ------------------------------------------------------------------------------------------

std::string Simulation::World::text_for(const Client& client, std::size_t size_max) {
    const auto index = static_cast<std::size_t>(&client - clients_.data());
    std::string text = "<s" + std::to_string(index) + ":" + std::to_string(++counter_) + ">";
    std::size_t size = chunk_bytes_;
    if (size == 0) {
        size = random_.below(random_.chance(8) ? size_max : 200);
    }
    while (text.size() < size) {
        text += static_cast<char>('a' + (counter_ + text.size()) % 26);
    }
    return text;
}

Sent Simulation::World::invent(const Client& client) {
    using Kind = Sent::Kind;
    Sent sent;
    sent.flag = random_.chance(3);
    const bool open = client.session->open_turn() != 0;
    const std::uint64_t draw = random_.below(100);
    if (!client.session->active()) {
        sent.kind = draw < 40 ? Kind::update : draw < 55 ? Kind::checkpoint : Kind::turn;
        if (client.session->meta().status == layout::SessionStatus::completed
            && sent.kind == Kind::checkpoint) {
            sent.kind = Kind::update;
        }
    } else if (!open) {
        sent.kind = draw < 70   ? Kind::turn
                    : draw < 78 ? Kind::note
                    : draw < 82 ? Kind::update
                    : draw < 86 ? Kind::attachment
                    : draw < 91 ? Kind::checkpoint
                                : Kind::end;
    } else {
        sent.kind = draw < 50   ? Kind::output
                    : draw < 60 ? Kind::stderr_log
                    : draw < 68 ? Kind::note
                    : draw < 75 ? Kind::tool
                    : draw < 90 ? Kind::end_turn
                    : draw < 93 ? Kind::turn
                    : draw < 95 ? Kind::update
                    : draw < 97 ? Kind::checkpoint
                                : Kind::end;
    }
    sent.text = text_for(client, sent.kind == Kind::output ? 9'000 : 1'500);
    return sent;
}

void Simulation::World::take(Client& client, Step step) {
    if (step.change.empty()) {
        return;
    }
    recorder::WorkItem item;
    item.files = client.files;
    item.finishes = !client.session->active();
    item.waiter.connection = static_cast<std::uint64_t>(&client - clients_.data()) + 1;
    item.waiter.seq = static_cast<std::int64_t>(client.oracle.submit(step.change));
    item.change = std::move(step.change);
    pipeline_->submit(std::move(item));
}

void Simulation::World::send_start(Client& client) {
    SessionState state;
    state.meta.id = client.id;
    state.meta.slug = "270115-quiet-harbor";
    state.meta.agent = "codex";
    state.meta.cwd = client.claim.anchor;
    state.claim = client.claim;
    Step first;
    const std::optional<std::int64_t> seq =
        client.numbered ? std::optional<std::int64_t>(1) : std::nullopt;
    client.session =
        std::make_unique<Session>(Session::begin(std::move(state), seq, clock_.now(), first));
    client.files = pipeline_->files_for(
        client.id, client.session->claim(), Pipeline::volume_name(disk_, client.claim));
    client.exists = true;
    take(client, std::move(first));
}

void Simulation::World::attach(Client& client) {
    layout::SessionAttach wish;
    wish.reopen = true;
    auto result = client.session->attach(wish, "4 5 6", std::nullopt, clock_.now());
    if (auto* step = std::get_if<Step>(&result)) {
        take(client, std::move(*step));
    } else {
        fail("session.attach was refused: " + std::get<layout::Refusal>(result).message);
    }
}

void Simulation::World::send(Client& client) {
    if (client.next == client.sent.size()) {
        client.sent.push_back(client.sent.empty() ? Sent{} : invent(client));
    }
    const Sent& sent = client.sent[client.next++];
    ++counts.events;
    if (sent.kind == Sent::Kind::start) {
        send_start(client);
        return;
    }
    layout::Event event;
    event.session = client.id;
    event.body = body_of(sent);
    if (client.numbered) {
        event.seq = static_cast<std::int64_t>(client.next);
    }
    auto result = client.session->handle(event, clock_.now());
    const auto* refusal = std::get_if<layout::Refusal>(&result);
    if (refusal != nullptr && refusal->code == layout::WireError::ended) {
        attach(client);
        result = client.session->handle(event, clock_.now());
        refusal = std::get_if<layout::Refusal>(&result);
    }
    if (refusal != nullptr) {
        fail("an event was refused: " + refusal->message);
        return;
    }
    Step& step = std::get<Step>(result);
    if (step.duplicate) {
        fail("an event that was not recorded was taken for a duplicate");
        return;
    }
    say("client " + std::to_string(&client - clients_.data()) + " sends "
        + std::to_string(static_cast<int>(sent.kind)) + " as " + std::to_string(client.next));
    take(client, std::move(step));
}

// As the daemon does with a session that has ended: it is read from disk when somebody asks for it.
void Simulation::World::let_go(Client& client) {
    const bool settled = client.oracle.acked() == client.oracle.submitted();
    if (client.session && !client.session->active() && settled && !client.deferred) {
        say("let go of " + client.root);
        client.session.reset();
        client.files.reset();
    }
}

bool Simulation::World::adopt(Client& client) {
    if (!pipeline_->is_readable(client.id)) {
        return false;
    }
    auto anchor = disk_.open_directory(client.claim.anchor);
    if (!anchor.ok()) {
        return false;
    }
    auto directory = anchor.value()->open_directory(client.root.substr(
        client.claim.anchor.size() + 1, client.root.size() - client.claim.anchor.size() - 2));
    if (!directory.ok()) {
        return false;
    }
    auto state = recorder::load_session(*directory.value(), client.claim, 0, 0);
    if (!state.ok()) {
        return false;
    }
    say("adopts " + client.root);
    const std::int64_t expected = client.oracle.seq_after(client.oracle.submitted());
    if (client.meddled.empty() && state.value().client_seq != expected) {
        fail(
            "a session read back has last_seq " + std::to_string(state.value().client_seq)
            + ", its files should say " + std::to_string(expected));
    }
    client.session = std::make_unique<Session>(std::move(state.value()));
    client.files = pipeline_->files_for(
        client.id, client.session->claim(), Pipeline::volume_name(disk_, client.claim));
    return true;
}

void Simulation::World::catch_up(Client& client) {
    if (client.session && !client.deleted) {
        take(
            client,
            random_.chance(2) ? client.session->catch_up_meta(clock_.now())
                              : client.session->catch_up_timeline(clock_.now()));
    }
}

void Simulation::World::send_something() {
    Client& client = clients_[random_.below(clients_.size())];
    if (client.deleted || client.waits_for_disk) {
        return;
    }
    if (!client.session && client.exists && !adopt(client)) {
        return;
    }
    const std::uint64_t burst = random_.chance(6) ? 1 + random_.below(6) : 1;
    for (std::uint64_t count = 0; count < burst && failure_.empty(); ++count) {
        send(client);
    }
    if (random_.chance(10)) {
        catch_up(client);
    }
    for (Client& other : clients_) {
        if (random_.chance(3)) {
            let_go(other);
        }
    }
}

void Simulation::World::settled(std::vector<recorder::Outcome> outcomes) {
    if (!disk_.has_power()) {
        return;  // nobody hears a dead process
    }
    for (const recorder::Outcome& outcome : outcomes) {
        Client& client = clients_[outcome.waiter.connection - 1];
        const auto number = static_cast<std::size_t>(*outcome.waiter.seq);
        if (options_.verbose) {
            say("change " + std::to_string(number) + " of " + client.root + ": verdict "
                + std::to_string(static_cast<int>(outcome.verdict)) + " " + outcome.reason);
        }
        switch (outcome.verdict) {
        case Verdict::visible:
        case Verdict::deferred:
            if (number != client.oracle.acked() + 1 && !client.deleted) {
                fail(
                    "acknowledged out of order: change " + std::to_string(number) + " after "
                    + std::to_string(client.oracle.acked()) + " of " + client.root);
            }
            client.oracle.acknowledge(number);
            ++counts.acks;
            counts.deferred += outcome.verdict == Verdict::deferred ? 1 : 0;
            client.deferred = client.deferred || outcome.verdict == Verdict::deferred;
            if (outcome.verdict == Verdict::visible) {
                check_visible(client, number);
            }
            break;
        case Verdict::gone:
            if (!client.deleted) {
                fail("a session was called gone that nobody deleted: " + outcome.reason);
            }
            break;
        case Verdict::failed:
        case Verdict::no_space:
            if (!journal_disturbed_) {
                fail("the journal failed on a sound disk: " + outcome.reason);
            }
            process_must_end_ = true;
            break;
        }
    }
}

void Simulation::World::noticed(recorder::Notice notice) {
    if (disk_.has_power()) {
        notices_.push_back(std::move(notice));
    }
}

void Simulation::World::handle_notices() {
    for (const recorder::Notice& notice : std::exchange(notices_, {})) {
        for (Client& client : clients_) {
            if (client.id != notice.session) {
                continue;
            }
            if (notice.gone && !client.deleted) {
                fail("a session was reported gone that nobody deleted");
            }
            if (notice.conflict && client.meddled.empty() && !client.deleted) {
                fail("a conflict over " + notice.conflict->file + " that no user made");
            }
            if (client.deleted || !client.session) {
                continue;
            }
            if (notice.conflict) {
                take(
                    client,
                    client.session->note_conflict(
                        notice.conflict->file, notice.conflict->kept, clock_.now()));
            }
            if (notice.deferral) {
                client.deferred = false;
                take(client, client.session->note_deferral(*notice.deferral, clock_.now()));
            }
        }
    }
}

// -- the process --------------------------------------------------------------------------------------

recorder::RecoveryOptions Simulation::World::recovery_options() {
    recorder::RecoveryOptions options;
    options.journal_directory = journal_mount;
    options.own_pid = 42;
    options.random = [this] {
        return random_.next();
    };
    return options;
}

void Simulation::World::start_process() {
    pipeline_ = std::make_unique<Pipeline>(disk_, clock_, *this, limits_);
    pipeline_->set_checkpoint_interval(checkpoint_interval_ms_);
    process_must_end_ = false;
}

void Simulation::World::end_process() {
    for (Client& client : clients_) {
        client.session.reset();
        client.files.reset();
        client.deferred = false;
    }
    notices_.clear();
    // Two volumes on one disk, because it could not be reached for a moment: a failed sync of the one
    // drops pages of the other, which a file opened later never hears of.
    writeback_failed_ =
        writeback_failed_ || (pipeline_ && pipeline_->volumes().size() > session_mounts.size());
    counts.batches += pipeline_ ? static_cast<std::int64_t>(pipeline_->batches()) : 0;
    pipeline_.reset();
    disk_.set_faults({});
    if (disk_.open_handles() != 0) {
        fail(std::to_string(disk_.open_handles()) + " handles leaked");
    }
}

// True when it came to its end.
bool Simulation::World::try_recovery(bool disturbed) {
    if (disturbed) {
        ModelDisk::Fault fault;
        fault.at_operation = disk_.operations() + static_cast<std::int64_t>(random_.below(400));
        const std::uint64_t draw = random_.below(10);
        fault.lose_power_instead = draw < 5;
        fault.end_process_instead = draw >= 5 && draw < 8;
        if (draw >= 8) {
            fault.os_errno = EIO;
            if (random_.chance(2)) {
                fault.only = random_.chance(2) ? Op::sync : Op::sync_file_system;
            }
        }
        ends_with_power_loss_ = fault.lose_power_instead;
        disk_.set_faults({fault});
    }
    start_process();
    look_at_journal_ = true;
    auto report = recorder::Recovery(*pipeline_).run(recovery_options());
    look_at_journal_ = false;
    if (report.ok() && disk_.has_power()) {
        disk_.set_faults({});
        ++counts.recoveries;
        if (!report.value().damaged_copy.empty()) {
            fail("the journal was called damaged: " + std::string(report.value().tail));
        }
        if (random_.chance(5) && all_volumes_well()) {
            report = layout::Error{};
            recover_once_more();
            return true;
        }
        meet_recovered(report.value());
        return true;
    }
    if (!disturbed) {
        fail("recovery failed: " + report.error().context);
    }
    ++counts.interrupted;
    say("recovery was interrupted");
    const bool lost_power = !disk_.has_power() && ends_with_power_loss_;
    report = layout::Error{};
    end_process();
    disk_.power_on();
    if (lost_power) {
        check_documents();
    }
    return false;
}

bool Simulation::World::all_volumes_well() const {
    const auto volumes = pipeline_->volumes();
    return std::none_of(
        volumes.begin(), volumes.end(), [](const auto& volume) { return volume->sick(); });
}

// Recovery of what was just recovered changes nothing.
void Simulation::World::recover_once_more() {
    std::array<std::map<std::string, std::string>, 2> before;
    for (std::size_t index = 0; index < before.size(); ++index) {
        before[index] = disk_.seen_tree(session_mounts[index]);
    }
    end_process();
    start_process();
    auto report = recorder::Recovery(*pipeline_).run(recovery_options());
    if (!report.ok()) {
        fail("the second recovery failed: " + report.error().context);
        return;
    }
    for (std::size_t index = 0; index < before.size(); ++index) {
        const std::map<std::string, std::string> after = disk_.seen_tree(session_mounts[index]);
        if (before[index] != after) {
            const SessionOracle::Files expected(before[index].begin(), before[index].end());
            const SessionOracle::Files found(after.begin(), after.end());
            fail("the second recovery changed " + SessionOracle::difference(expected, found, {}));
        }
    }
    meet_recovered(report.value());
}

void Simulation::World::recover() {
    const std::uint64_t interruptions = random_.chance(2) ? random_.below(4) : 0;
    for (std::uint64_t nested = 0; nested < interruptions && failure_.empty(); ++nested) {
        if (try_recovery(true)) {
            return;
        }
        clock_.steady += 1'000;
    }
    // Sometimes one disk of sessions is still ill.
    if (random_.chance(6)) {
        const std::string& mount = session_mounts[random_.below(session_mounts.size())];
        if (random_.chance(2)) {
            disk_.set_read_only(mount, true);
        } else {
            disk_.set_capacity(mount, disk_.used(mount));
        }
        say("recovery with an ill disk at " + mount);
        ++counts.faults;
    }
    if (failure_.empty()) {
        static_cast<void>(try_recovery(false));
    }
}

SessionOracle::Files Simulation::World::files_of(const Client& client) const {
    SessionOracle::Files files;
    const std::string mount = client.root.substr(0, client.root.find('/', 1));
    for (auto& [path, content] : disk_.seen_tree(mount)) {
        if (path.starts_with(client.root) && path.back() != '/') {
            files.emplace(path.substr(client.root.size()), content);
        }
    }
    return files;
}

void Simulation::World::continue_from(Client& client, std::size_t count) {
    client.oracle.forget_after(count);
    client.oracle.acknowledge(count);
    client.exists = count > 0;
    if (!client.exists) {
        client.next = 0;
        client.session.reset();
        client.files.reset();
    } else if (client.numbered) {
        client.next = static_cast<std::size_t>(client.oracle.seq_after(count));
    } else {
        client.next = client.sent.size();
    }
    if (!client.numbered && !client.exists) {
        client.sent.clear();
    }
}

void Simulation::World::resume_client(Client& client, recorder::RecoveryReport& report) {
    const auto found = std::find_if(
        report.sessions.begin(), report.sessions.end(), [&client](const auto& recovered) {
            return recovered.files->id == client.id;
        });
    const bool known = found != report.sessions.end();
    const SessionOracle::Files files = files_of(client);
    if (files.empty() && !known) {
        if (client.oracle.acked() > 0) {
            fail("an acknowledged session is not there after recovery");
            return;
        }
        continue_from(client, 0);
        return;
    }
    const std::int64_t seq = known && client.numbered && client.meddled.empty()
                                 ? found->state.client_seq
                                 : SessionOracle::any_seq;
    const std::optional<std::size_t> count = client.oracle.match(files, client.meddled, seq);
    if (!count) {
        fail(
            "after recovery the files of " + client.root
            + " are no outcome of what was acknowledged and submitted"
            + (client.oracle.match(files, client.meddled, SessionOracle::any_seq)
                   ? "; but for the seq: " + std::to_string(seq)
                   : "")
            + "; acked " + std::to_string(client.oracle.acked()) + " of "
            + std::to_string(client.oracle.submitted()) + "; against all submitted: "
            + SessionOracle::difference(client.oracle.outcome(), files, client.meddled));
        return;
    }
    say(client.root + " goes on from change " + std::to_string(*count)
        + (known ? "" : ", not known to recovery"));
    continue_from(client, *count);
    if (known) {
        client.session = std::make_unique<Session>(std::move(found->state));
        client.files = found->files;
        if (!client.meddled.empty() && client.numbered) {
            client.next = static_cast<std::size_t>(client.session->last_client_seq());
        }
    }
}

void Simulation::World::meet_recovered(recorder::RecoveryReport& report) {
    for (Client& client : clients_) {
        if (client.deleted || !failure_.empty()) {
            continue;
        }
        client.waits_for_disk = false;
        for (const auto& volume : pipeline_->volumes()) {
            if (volume->sick() && volume->find(client.id)) {
                client.waits_for_disk = true;
            }
        }
        if (!client.waits_for_disk) {
            resume_client(client, report);
        }
    }
    check_journal_size();
}

// Those whose disk was ill when the process began, once it is well.
void Simulation::World::greet_waiting() {
    for (Client& client : clients_) {
        if (!client.waits_for_disk || client.deleted) {
            continue;
        }
        for (const auto& volume : pipeline_->volumes()) {
            const std::shared_ptr<SessionFiles> files = volume->find(client.id);
            if (!files || volume->sick()) {
                continue;
            }
            recorder::RecoveryReport report;
            auto directory = files->directory();
            auto state =
                directory.ok() ? recorder::load_session(
                    *directory.value(), files->claim(), files->client_seq, files->event_seq)
                               : recorder::Result<SessionState>(directory.error());
            if (!state.ok()
                && (state.error().code == recorder::Errc::io
                    || state.error().code == recorder::Errc::no_space)) {
                break;  // ill again
            }
            client.waits_for_disk = false;
            if (state.ok()) {
                static_cast<void>(files->remove_temporaries());
                report.sessions.push_back({files, std::move(state.value()), false});
            }
            if (disk_.has_power()) {
                resume_client(client, report);
            }
            break;
        }
    }
}

// -- faults -------------------------------------------------------------------------------------------

void Simulation::World::heal() {
    for (const std::string& mount : session_mounts) {
        disk_.set_read_only(mount, false);
        disk_.set_capacity(mount, ModelDisk::unlimited);
    }
    disk_.set_capacity(journal_mount, ModelDisk::unlimited);
}

void Simulation::World::strike(const ModelDisk::Fault& fault) {
    std::vector<ModelDisk::Fault> faults{fault};
    if (planned_end_) {
        faults.push_back(*planned_end_);
    }
    disk_.set_faults(std::move(faults));
}

void Simulation::World::disturb() {
    ++counts.faults;
    const std::string& mount = session_mounts[random_.below(session_mounts.size())];
    ModelDisk::Fault fault;
    fault.at_operation = disk_.operations();
    fault.os_errno = EIO;
    switch (random_.below(8)) {
    case 0:
        fault.at_operation += static_cast<std::int64_t>(random_.below(100));
        fault.os_errno = random_.chance(3) ? ENOSPC : EIO;
        fault.mount_point = mount;
        strike(fault);
        say("something soon fails on " + mount);
        return;
    case 1:
        fault.only = random_.chance(2) ? Op::sync : Op::sync_file_system;
        fault.mount_point = mount;
        strike(fault);
        say("the next sync on " + mount + " fails");
        return;
    case 2:
        disk_.set_capacity(
            mount, disk_.used(mount) + static_cast<std::int64_t>(random_.below(2'000)));
        say(mount + " is full");
        return;
    case 3:
        disk_.set_read_only(mount, true);
        say(mount + " is read-only");
        return;
    case 4:
        disk_.set_capacity(
            journal_mount,
            disk_.used(journal_mount) + static_cast<std::int64_t>(random_.below(2'000)));
        say("the journal's disk is full");
        return;
    case 5: {
        const Client& client = clients_[random_.below(clients_.size())];
        const std::string path =
            client.root + (random_.chance(2) ? "events.jsonl" : "turns/001-output.md");
        if (disk_.seen(path)) {
            disk_.fail_writeback(path);
            writeback_failed_ = true;
            say("write-back of " + path + " fails");
        }
        return;
    }
    default: {
        if (!random_.chance(3)) {
            return;
        }
        journal_disturbed_ = true;
        fault.only = random_.chance(3) ? Op::write : Op::sync;
        fault.short_write_bytes =
            random_.chance(2) ? static_cast<std::int64_t>(random_.below(5'000)) : -1;
        fault.mount_point = journal_mount;
        strike(fault);
        say("the next write or sync of the journal fails");
        return;
    }
    }
}

void Simulation::World::meddle() {
    Client& client = clients_[random_.below(clients_.size())];
    if (client.deleted || !disk_.seen(client.root + "meta.json")) {
        return;
    }
    ++counts.faults;
    if (random_.chance(2)) {
        say("the user deletes " + client.root);
        client.deleted = true;
        disk_.user_remove_tree(client.root.substr(0, client.root.size() - 1));
        return;
    }
    const char* const names[] = {"turns/001-output.md", "meta.json", "events.jsonl"};
    const std::string name = names[random_.below(3)];
    if (!disk_.seen(client.root + name)) {
        return;
    }
    say("the user edits " + client.root + name);
    client.meddled.insert(name);
    client.meddled.insert(layout::recovered_file(name));
    if (random_.chance(2)) {
        disk_.user_write(client.root + name, "mine now");
    } else {
        disk_.user_edit_in_place(client.root + name, "mine now");
    }
}

// -- the run ------------------------------------------------------------------------------------------

void Simulation::World::act() {
    const std::uint64_t draw = random_.below(100);
    const auto volumes = pipeline_->volumes();
    if (draw < 34) {
        send_something();
    } else if (draw < 56) {
        const auto committed = pipeline_->commit_step();
        if (committed == Pipeline::Commit::failed) {
            process_must_end_ = true;
        }
    } else if (draw < 74) {
        if (!volumes.empty()) {
            look_at_journal_ = true;
            static_cast<void>(volumes[random_.below(volumes.size())]->apply_step());
            look_at_journal_ = false;
        }
    } else if (draw < 80) {
        if (!volumes.empty()) {
            static_cast<void>(volumes[random_.below(volumes.size())]->sync_step());
        }
    } else if (draw < 88) {
        static_cast<void>(pipeline_->checkpoint_step());
    } else if (draw < 93) {
        const auto by = static_cast<std::int64_t>(random_.below(random_.chance(10) ? 25'000 : 800));
        clock_.steady += by;
        clock_.wall_ms += random_.chance(6) ? -by : by;
    } else if (draw < 96) {
        handle_notices();
        greet_waiting();
    } else if (draw < 97) {
        static_cast<void>(pipeline_->request_checkpoint());
    } else if (draw < 98) {
        heal();
    } else if (random_.chance(2)) {
        disturb();
    } else if (random_.chance(12)) {
        meddle();
    }
}

// Draws where in the middle of its work the process will end.
void Simulation::World::plan_end() {
    planned_end_.reset();
    if (random_.chance(2)) {
        return;  // between two steps
    }
    ModelDisk::Fault fault;
    fault.at_operation = disk_.operations() + static_cast<std::int64_t>(random_.below(600));
    fault.lose_power_instead = random_.chance(2);
    fault.end_process_instead = !fault.lose_power_instead;
    ends_with_power_loss_ = fault.lose_power_instead;
    planned_end_ = fault;
    disk_.set_faults({fault});
}

void Simulation::World::live() {
    plan_end();
    const std::uint64_t steps = 40 + random_.below(140);
    for (std::uint64_t step = 0; step < steps && running(); ++step) {
        act();
        if (process_must_end_ && random_.chance(4)) {
            return;
        }
    }
}

void Simulation::World::stop_orderly() {
    say("an orderly stop");
    disk_.set_faults({});
    drain();
    if (!running() || process_must_end_) {
        return;
    }
    for (const auto& volume : pipeline_->volumes()) {
        while (volume->apply_step()) {
        }
    }
    const auto finished = pipeline_->finish();
    if (!finished.ok() && running() && disk_.used(journal_mount) == 0) {
        fail("an orderly stop failed: " + finished.error().context);
    }
}

// Commits everything that was submitted, as far as it goes.
void Simulation::World::drain() {
    for (int round = 0; round < 20 && running() && pipeline_->queued() > 0; ++round) {
        if (pipeline_->commit_step() == Pipeline::Commit::failed) {
            process_must_end_ = true;
            return;
        }
        for (const auto& volume : pipeline_->volumes()) {
            static_cast<void>(volume->apply_step());
            static_cast<void>(volume->sync_step());
        }
        static_cast<void>(pipeline_->checkpoint_step());
        clock_.steady += 600;
    }
}

void Simulation::World::die() {
    const std::uint64_t draw = random_.below(20);
    if (disk_.has_power() && draw < 3) {
        stop_orderly();
    }
    bool lost_power = false;
    if (disk_.has_power() && draw % 2 == 0) {
        disk_.lose_power(random_);
        lost_power = true;
    } else if (!disk_.has_power()) {
        lost_power = ends_with_power_loss_;
    }
    say(lost_power ? "power lost" : "the process ends");
    counts.power_losses += lost_power ? 1 : 0;
    counts.crashes += lost_power ? 0 : 1;
    end_process();
    disk_.power_on();
    journal_disturbed_ = false;
    heal();
    if (lost_power) {
        check_documents();
    }
}

void Simulation::World::settle_everything() {
    say("everything settles");
    disk_.set_faults({});
    heal();
    for (int round = 0; round < 300 && running(); ++round) {
        if (process_must_end_ || pipeline_->failure()) {
            end_process();
            static_cast<void>(try_recovery(false));
            continue;
        }
        handle_notices();
        greet_waiting();
        static_cast<void>(pipeline_->commit_step());
        bool well = true;
        for (const auto& volume : pipeline_->volumes()) {
            static_cast<void>(volume->apply_step());
            static_cast<void>(volume->sync_step());
            well = well && !volume->sick();
        }
        static_cast<void>(pipeline_->checkpoint_step());
        clock_.steady += 700;
        bool done = well && pipeline_->queued() == 0 && notices_.empty();
        for (Client& client : clients_) {
            if (client.deleted || !done) {
                continue;
            }
            if (!client.session && client.exists && client.next < client.sent.size()) {
                static_cast<void>(adopt(client));
            }
            if (client.session && client.next < client.sent.size()) {
                send(client);
                done = false;
            }
            done = done && !client.waits_for_disk
                   && client.oracle.acked() == client.oracle.submitted();
        }
        if (done) {
            return;
        }
    }
    fail("something submitted is not settled long after the last fault");
}

void Simulation::World::final_checks() {
    const std::uint64_t ticket = pipeline_->request_checkpoint();
    for (int round = 0; round < 50 && pipeline_->checkpoints_done() < ticket; ++round) {
        static_cast<void>(pipeline_->checkpoint_step());
        for (const auto& volume : pipeline_->volumes()) {
            static_cast<void>(volume->apply_step());
            static_cast<void>(volume->sync_step());
        }
        clock_.steady += 700;
    }
    if (pipeline_->checkpoints_done() < ticket) {
        fail("no checkpoint comes to its end on sound disks");
    }
    for (const auto& [path, content] : disk_.seen_tree(journal_mount)) {
        if (path.ends_with(".spill")) {
            fail("a spill stays although everything is in its place: " + path);
        }
    }
    check_journal_size();
    for (Client& client : clients_) {
        if (client.deleted || !client.exists || !failure_.empty()) {
            continue;
        }
        const SessionOracle::Files files = files_of(client);
        if (client.oracle.match(files, client.meddled, SessionOracle::any_seq)
            != client.oracle.submitted()) {
            fail(
                "in the end the files of " + client.root + " differ: "
                + SessionOracle::difference(client.oracle.outcome(), files, client.meddled));
        }
        check_streams(client);
    }
}

std::string Simulation::World::run() {
    const std::uint64_t lives = 2 + random_.below(3);
    static_cast<void>(try_recovery(false));
    for (std::uint64_t life = 0; life < lives && failure_.empty(); ++life) {
        live();
        if (failure_.empty()) {
            die();
        }
        if (failure_.empty()) {
            recover();
        }
    }
    if (failure_.empty()) {
        settle_everything();
    }
    if (failure_.empty()) {
        final_checks();
    }
    end_process();
    ++counts.seeds;
    return failure_;
}

// -- checks -------------------------------------------------------------------------------------------

// Nothing reaches a session's file before the batch it comes from is durable. Looked at with the first
// change of a session's disk in each step, and in recovery, where it is broken most easily.
void Simulation::World::watch(Op op, const std::string& mount_point) {
    const bool changes = op == Op::write || op == Op::rename || op == Op::make_directory
                         || op == Op::truncate || op == Op::remove;
    if (look_at_journal_ && changes && mount_point != journal_mount) {
        look_at_journal_ = false;
        check_batches_are_durable();
    }
}

void Simulation::World::check_batches_are_durable() {
    for (int number = 1; number <= 4; ++number) {
        const std::string path = journal_mount + "/segment-000" + std::to_string(number);
        if (disk_.is_settled(path)) {
            continue;
        }
        const std::string seen = disk_.seen(path).value_or("");
        for (std::size_t offset = 0; offset < seen.size(); offset += layout::journal_block_bytes) {
            const std::string_view bytes = std::string_view(seen).substr(offset);
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
        const SessionOracle::Files files = files_of(client);
        for (const auto& [name, content] : files) {
            const bool document =
                name == "meta.json" || name == "resume.json" || name.ends_with("-state.json");
            if (document && !client.meddled.contains(name)
                && !client.oracle.knows_version(name, content)) {
                fail(
                    "after a power loss " + client.root + name
                    + " is no version that was ever written: '" + content.substr(0, 200) + "'");
            }
        }
        if (client.meddled.empty() && !writeback_failed_) {
            check_sealed_turns(client, files);
        }
    }
}

// A turn with a seal is complete without recovery.
void Simulation::World::check_sealed_turns(
    const Client& client, const SessionOracle::Files& found) {
    const SessionOracle::Files expected = client.oracle.outcome();
    for (const auto& [name, content] : found) {
        if (!name.ends_with("-state.json")) {
            continue;
        }
        const std::string stem =
            name.substr(0, name.size() - std::string_view("state.json").size());
        for (const char* const part : {"prompt.md", "output.md", "stderr.log", "diff.patch"}) {
            const auto wanted = expected.find(stem + part);
            const auto present = found.find(stem + part);
            if (wanted != expected.end()
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
            const std::string seen =
                disk_.seen(client.root + std::string(effect->name)).value_or("");
            if (seen.size() < static_cast<std::size_t>(effect->offset)
                || !std::string_view(seen)
                        .substr(static_cast<std::size_t>(effect->offset))
                        .starts_with(effect->data)) {
                fail(
                    "acknowledged as visible and not to be seen: " + client.root
                    + std::string(effect->name) + " at " + std::to_string(effect->offset) + " of "
                    + std::to_string(seen.size()) + ": " + std::string(effect->data));
            }
        }
    }
}

// What the client itself knows: each event once, in order, in its turn's file.
void Simulation::World::check_streams(const Client& client) {
    if (!client.numbered || !client.meddled.empty()) {
        return;
    }
    std::map<std::string, std::string> streams;
    const std::string timeline = disk_.seen(client.root + "events.jsonl").value_or("");
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
            const std::string quoted = "\"" + sent.text + "\"";
            const std::size_t at = timeline.find(quoted);
            if (at == std::string::npos || timeline.find(quoted, at + 1) != std::string::npos) {
                fail("an event is not exactly once in the timeline of " + client.root);
            }
        }
    }
    for (const auto& [name, expected] : streams) {
        if (disk_.seen(client.root + name) != expected) {
            fail("in the end " + client.root + name + " is not what its client sent");
        }
    }
}

void Simulation::World::check_journal_size() {
    std::int64_t segments = 0;
    for (const auto& [path, content] : disk_.seen_tree(journal_mount)) {
        segments += path.starts_with(journal_mount + "/segment-") ? 1 : 0;
    }
    if (segments > limits_.journal.segments_max) {
        fail("the journal has " + std::to_string(segments) + " segments");
    }
}

Simulation::Simulation(std::uint64_t seed, SimulationOptions options)
    : world_(std::make_unique<World>(seed, options)) {
}

Simulation::~Simulation() = default;

std::string Simulation::run() {
    return world_->run();
}

const SimulationCounts& Simulation::counts() const {
    return world_->counts;
}

}  // namespace relay::tests
