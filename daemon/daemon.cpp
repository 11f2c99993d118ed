// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon.hpp"

#include "daemon/desk.hpp"
#include "daemon/listener.hpp"
#include "daemon/pipeline_threads.hpp"
#include "daemon/timeout_extender.hpp"
#include "recorder/catalog.hpp"
#include "recorder/clock.hpp"
#include "recorder/pipeline.hpp"
#include "recorder/posix_disk.hpp"
#include "recorder/recorder.hpp"
#include "recorder/recovery.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace relay::daemon {

namespace asio = boost::asio;
using layout::Errc;
using layout::Error;
using layout::Status;

namespace {

// Looking things up on disks: more than one, so that a slow store does not hold up the others.
constexpr std::size_t background_threads = 4;
// After this much silence the last batch is vouched for. Longer than the pauses between the words of an agent, each of
// which would otherwise cost a second sync.
constexpr std::chrono::milliseconds vouch_delay{250};
// Descriptors that sessions do not get: listening, journal, connections that are just being answered.
constexpr std::uint64_t reserved_descriptors = 64;
// A session holds its directory, timeline, prompt, output and stderr open.
constexpr std::uint64_t descriptors_a_session = 5;
constexpr std::chrono::seconds follower_look{1};
constexpr std::chrono::seconds stop_patience{15};
// How often `systemctl status` is brought up to date when there is no watchdog to be fed.
constexpr std::chrono::seconds status_interval{30};
constexpr std::chrono::seconds join_patience{3};
// How long io stays awake for the next line after an answer. A client that waits for its answers sends the
// next event within some 40 us, and putting io to sleep and waking it would take a third of that again.
constexpr std::chrono::microseconds linger{60};

std::uint64_t random_number() {
    std::uint64_t number = 0;
    // Cannot fail or be cut short: eight bytes, and no signal handler of ours interrupts it.
    while (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) {
    }
    return number;
}

// As many as the system lets us have; the number we got.
std::uint64_t raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 1024;
    }
    limit.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        static_cast<void>(::getrlimit(RLIMIT_NOFILE, &limit));
    }
    return limit.rlim_cur;
}

recorder::PipelineLimits limits_of(const Config& config, std::uint64_t descriptors) {
    recorder::PipelineLimits limits;
    limits.journal.segment_bytes = config.segment_bytes;
    limits.journal.segments_max = config.segments_max;
    // Half of the descriptors are the clients'.
    const std::uint64_t ours =
        descriptors > 2 * reserved_descriptors ? (descriptors - reserved_descriptors) / 2 : 16;
    limits.open_sessions_max = std::max<std::uint64_t>(ours / descriptors_a_session, 4);
    return limits;
}

layout::StorePreference preference_of(const std::string& store) {
    return store == "user"   ? layout::StorePreference::user
           : store == "repo" ? layout::StorePreference::repo
                             : layout::StorePreference::automatic;
}

}  // namespace

struct Daemon::Service : recorder::PipelineListener {
    Service(DaemonSetup given, const Log& logger, const ServiceNotifier& manager)
        : setup(std::move(given)),
          log(logger),
          notifier(manager),
          signals(io),
          tick(io),
          follower_timer(io),
          vouch_timer(io),
          idle_timer(io),
          watchdog(io),
          stop_timer(io),
          lookups(background_threads),
          descriptors(raise_descriptor_limit()),
          pipeline(disk, clock, *this, limits_of(setup.config, descriptors)),
          recorder(pipeline, clock),
          catalog(disk, clock, setup.user),
          desk(
              Desk::Parts{
                  .io = io,
                  .pipeline = pipeline,
                  .recorder = recorder,
                  .catalog = catalog,
                  .log = log,
                  .background =
                      [this](std::function<void()> work, std::function<void()> then) {
                          in_background(std::move(work), std::move(then));
                      },
                  .volumes_changed = [this] { threads.cover_volumes(); },
                  .work_pending =
                      [this] {
                          schedule_tick();
                          watch_idle();
                      }},
              setup.config),
          listener(
              io,
              [this](int fd, std::int64_t pid) { accepted(fd, pid); },
              [this](std::int64_t uid) {
                  log.warn(
                      "connection refused",
                      {{"reason", "another user"}, {"uid", std::to_string(uid)}});
              }),
          threads(pipeline, [this] { asio::post(io, [this] { journal_failed(); }); }) {}

    // -- pipeline threads, and the io thread when it commits by itself. A queue of our own, because Asio
    // keeps what this thread posts behind what others post meanwhile, and a session's answers have an order.
    void settled(std::vector<recorder::Outcome> outcomes) override {
        bool first = false;
        {
            const std::lock_guard guard(settled_mutex);
            first = settled_outcomes.empty();
            settled_outcomes.insert(
                settled_outcomes.end(),
                std::make_move_iterator(outcomes.begin()),
                std::make_move_iterator(outcomes.end()));
        }
        if (first) {
            asio::post(io, [this] { answer_settled(); });
        }
    }
    void noticed(recorder::Notice notice) override {
        asio::post(io, [this, moved = std::move(notice)] { desk.noticed(moved); });
    }
    void submitted() override {
        asio::post(io, [this] {
            if (pipeline.commit_here() == recorder::Pipeline::Commit::failed) {
                journal_failed();
            }
            vouch_when_silent();
        });
    }
    void checkpointed() override {
        asio::post(io, [this] { desk.answer_flushes(); });
    }

    // -- io thread
    void answer_settled() {
        std::vector<recorder::Outcome> outcomes;
        {
            const std::lock_guard guard(settled_mutex);
            outcomes = std::exchange(settled_outcomes, {});
        }
        settled_count += outcomes.size();
        desk.settled(outcomes);
        awake_until = std::chrono::steady_clock::now() + linger;
        after_work();
    }
    void in_background(std::function<void()> work, std::function<void()> then) {
        ++background_jobs;
        asio::post(lookups, [this, work = std::move(work), then = std::move(then)] {
            work();
            asio::post(io, [this, then] {
                --background_jobs;
                then();
                after_work();
            });
        });
    }

    DaemonExit run();
    void serve();
    [[nodiscard]] std::optional<DaemonExit> recover();
    [[nodiscard]] Status listen();
    void configure(const Config& config);
    void accepted(int fd, std::int64_t pid);
    void schedule_tick();
    void run_tick();
    void watch_followers();
    void vouch_when_silent();
    void after_work();
    void watch_idle();
    void watch_manager();
    [[nodiscard]] bool makes_progress();
    void wait_for_signal();
    void reload();
    void begin_stop();
    void wait_for_last_answers();
    void end_stop();
    void journal_failed();
    [[nodiscard]] std::string status_line() const;
    [[nodiscard]] DaemonExit fail(const Error& error, DaemonExit exit) const;

    DaemonSetup setup;
    const Log& log;
    const ServiceNotifier& notifier;
    asio::io_context io{1};
    // The pipeline's threads post to it, so there may be work to come when there is none.
    asio::executor_work_guard<asio::io_context::executor_type> stay_awake{io.get_executor()};
    asio::signal_set signals;
    asio::steady_timer tick;
    asio::steady_timer follower_timer;
    asio::steady_timer vouch_timer;
    asio::steady_timer idle_timer;
    asio::steady_timer watchdog;
    asio::steady_timer stop_timer;
    asio::thread_pool lookups;
    std::uint64_t descriptors;
    recorder::PosixDisk disk;
    recorder::SystemClock clock;
    recorder::Pipeline pipeline;
    recorder::Recorder recorder;
    recorder::Catalog catalog;
    Desk desk;
    Listener listener;
    PipelineThreads threads;
    std::mutex settled_mutex;
    std::vector<recorder::Outcome> settled_outcomes;
    std::optional<std::chrono::steady_clock::time_point> tick_at;
    bool watching_followers = false;
    bool awaiting_silence = false;
    std::size_t background_jobs = 0;
    std::uint64_t settled_count = 0;
    // At the last look: what waited, and what had been settled until then.
    std::int64_t outstanding_before = 0;
    std::uint64_t settled_before = 0;
    std::chrono::steady_clock::time_point awake_until;
    bool stopping = false;
    std::optional<DaemonExit> result;
};

DaemonExit Daemon::Service::fail(const Error& error, DaemonExit exit) const {
    log.error("cannot start", {{"reason", error.context}});
    return exit;
}

void Daemon::Service::configure(const Config& config) {
    recorder.set_orphan_grace(config.orphan_grace.count());
    recorder.set_redactor(config.redactor);
    pipeline.set_checkpoint_interval(config.checkpoint_interval.count());
    catalog.set_default_store(preference_of(config.store));
    desk.configure(config);
}

std::optional<DaemonExit> Daemon::Service::recover() {
    const std::string journal =
        setup.config.journal_dir.empty() ? setup.user.state + "/journal" : setup.config.journal_dir;
    auto made = recorder::make_private_directories(disk, journal);
    if (!made.ok()) {
        return fail(made.error(), DaemonExit::storage_failed);
    }
    made.value().reset();
    const auto begun = std::chrono::steady_clock::now();
    recorder::RecoveryOptions options;
    options.journal_directory = journal;
    options.unsafe_journal = setup.unsafe_journal;
    options.own_pid = ::getpid();
    options.random = random_number;
    auto recovered = recorder::Recovery(pipeline).run(options);
    if (!recovered.ok()) {
        const Error& error = recovered.error();
        if (error.code == Errc::busy) {
            return fail(error, DaemonExit::already_running);
        }
        // A journal in memory, or one of a newer version, is no better at the next start.
        const bool hopeless = error.code == Errc::unsafe || error.code == Errc::invalid;
        const bool ours = error.code == Errc::io || error.code == Errc::no_space;
        return fail(
            error,
            hopeless ? DaemonExit::bad_configuration
            : ours   ? DaemonExit::storage_failed
                     : DaemonExit::failed);
    }
    recorder::RecoveryReport& report = recovered.value();
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begun);
    for (const std::string& remark : report.remarks) {
        log.warn("recovery", {{"remark", remark}});
    }
    if (!report.damaged_copy.empty()) {
        log.error(
            "journal damaged",
            {{"kept", journal + "/" + report.damaged_copy}, {"rule", report.tail}});
    }
    log.info(
        "recovered",
        {{"journal", report.fresh ? "new" : report.tail},
         {"batches", std::to_string(report.batches)},
         {"sessions", std::to_string(report.sessions.size())},
         {"ms", std::to_string(took.count())}});
    catalog.resume_ids_after(report.last_ulid);
    recorder.await_disks(report.waiting);
    configure(setup.config);
    threads.start();
    for (recorder::RecoveredSession& session : report.sessions) {
        const layout::Ulid id = session.state.meta.id;
        recorder.adopt_recovered(std::move(session));
        desk.watch_owner(id);
    }
    return std::nullopt;
}

Status Daemon::Service::listen() {
    if (setup.listen_fd) {
        // A copy: clients go on finding the socket, and wait, when there is nobody behind it for a while.
        const int copy = ::fcntl(*setup.listen_fd, F_DUPFD_CLOEXEC, 0);
        if (copy < 0) {
            return Error{Errc::io, errno, "copy the listening socket"};
        }
        return listener.adopt(copy);
    }
    return listener.bind(setup.config.socket);
}

DaemonExit Daemon::Service::run() {
    signals.add(SIGHUP);  // from the first moment: it means reload, never the end
    {
        const TimeoutExtender patience(notifier, "Recovering");
        if (auto failed = recover()) {
            static_cast<void>(threads.stop(join_patience));
            return *failed;
        }
        // Sessions of dead owners are sealed before anybody is let in.
        while (recorder.outstanding() > 0 && !result) {
            io.run_one();
        }
    }
    if (Status listening = listen(); !listening.ok()) {
        static_cast<void>(threads.stop(join_patience));
        return fail(listening.error(), DaemonExit::failed);
    }
    signals.add(SIGTERM);
    signals.add(SIGINT);
    wait_for_signal();
    listener.start();
    schedule_tick();
    watch_idle();
    watch_manager();
    log.info("ready", {{"socket", listener.path()}, {"pid", std::to_string(::getpid())}});
    notifier.ready(status_line());
    serve();
    const TimeoutExtender patience(notifier, "Stopping: waiting for the last sync");
    const bool joined = threads.stop(join_patience);
    if (result == DaemonExit::stopped && !pipeline.failure()) {
        if (Status finished = pipeline.finish(); !finished.ok()) {
            log.error("stop incomplete", {{"reason", finished.error().context}});
            result = DaemonExit::storage_failed;
        }
    }
    lookups.stop();
    log.info("stopped", {{"exit", std::to_string(static_cast<int>(*result))}});
    if (!joined) {
        // A disk holds one of our threads in the kernel. Everything is synced or spilled; destroying
        // what that thread uses would be wrong, so the process ends here.
        ::_exit(static_cast<int>(*result));
    }
    lookups.join();
    return *result;
}

void Daemon::Service::accepted(int fd, std::int64_t pid) {
    idle_timer.cancel();
    desk.accepted(fd, pid);
}

void Daemon::Service::schedule_tick() {
    // Soon rather than exactly: run_tick() finds out when the next one is due.
    const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    if (desk.watches_followers()) {
        watch_followers();
    }
    if (tick_at && *tick_at <= soon) {
        return;
    }
    tick_at = soon;
    tick.expires_at(soon);
    tick.async_wait([this](const boost::system::error_code& error) {
        if (!error) {
            run_tick();
        }
    });
}

void Daemon::Service::run_tick() {
    tick_at.reset();
    const auto again = recorder.tick();
    if (!again) {
        return;
    }
    tick_at = std::chrono::steady_clock::now() + std::chrono::milliseconds(*again);
    tick.expires_at(*tick_at);
    tick.async_wait([this](const boost::system::error_code& error) {
        if (!error) {
            run_tick();
        }
    });
}

void Daemon::Service::watch_followers() {
    if (std::exchange(watching_followers, true)) {
        return;
    }
    follower_timer.expires_after(follower_look);
    follower_timer.async_wait([this](const boost::system::error_code& error) {
        watching_followers = false;
        if (!error && desk.check_followers()) {
            watch_followers();
        }
    });
}

void Daemon::Service::vouch_when_silent() {
    if (stopping || std::exchange(awaiting_silence, true)) {
        return;
    }
    vouch_timer.expires_after(vouch_delay);
    vouch_timer.async_wait(
        [this, before = pipeline.durable_lsn()](const boost::system::error_code& error) {
            awaiting_silence = false;
            if (error || stopping) {
                return;
            }
            if (pipeline.durable_lsn() == before) {
                pipeline.vouch();
            } else {
                vouch_when_silent();
            }
        });
}

void Daemon::Service::serve() {
    while (!io.stopped()) {
        if (io.poll() > 0) {
            continue;
        }
        if (std::chrono::steady_clock::now() < awake_until) {
            std::this_thread::yield();  // whoever else wants this processor
        } else {
            io.run_one();
        }
    }
}

void Daemon::Service::after_work() {
    if (stopping && recorder.outstanding() == 0 && background_jobs == 0) {
        end_stop();
        return;
    }
    watch_idle();
}

void Daemon::Service::watch_idle() {
    const bool idle = desk.connections() == 0 && recorder.active_sessions() == 0;
    if (!idle || setup.config.idle_exit.count() == 0 || stopping) {
        return;
    }
    idle_timer.expires_after(setup.config.idle_exit);
    idle_timer.async_wait([this](const boost::system::error_code& error) {
        if (!error && desk.connections() == 0 && recorder.active_sessions() == 0) {
            log.info("idle", {{"for_ms", std::to_string(setup.config.idle_exit.count())}});
            begin_stop();
        }
    });
}

std::string Daemon::Service::status_line() const {
    const auto counted = [](std::size_t count, const std::string& noun) {
        return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
    };
    std::string line = "Recording " + counted(recorder.active_sessions(), "session") + " of "
                       + counted(desk.connections(), "client") + ", "
                       + counted(static_cast<std::size_t>(recorder.events()), "event")
                       + " since the start";
    for (const auto& volume : pipeline.volumes()) {
        line += volume->sick() ? "; the disk at " + volume->anchor() + " refuses" : "";
    }
    return line;
}

// Whether the way from socket to ack is open: nothing waits on it, or something has come through since
// the last look.
bool Daemon::Service::makes_progress() {
    const std::int64_t waited = std::exchange(outstanding_before, recorder.outstanding());
    const std::uint64_t settled = std::exchange(settled_before, settled_count);
    return waited == 0 || recorder.outstanding() == 0 || settled != settled_count;
}

// The manager's watchdog hears from the thread that serves the clients, and only while the commit path
// makes progress: a journal that hangs keeps it silent as well as this thread's own standstill.
void Daemon::Service::watch_manager() {
    if (!notifier.active()) {
        return;
    }
    const auto watchdog_interval = notifier.watchdog_interval();
    watchdog.expires_after(watchdog_interval.value_or(status_interval));
    watchdog.async_wait([this](const boost::system::error_code& error) {
        if (error || stopping) {
            return;
        }
        if (makes_progress()) {
            notifier.status(status_line());
            notifier.watchdog();
        } else {
            log.error("no progress", {{"waiting", std::to_string(recorder.outstanding())}});
            notifier.status(
                "The journal has taken nothing since the last look; "
                + std::to_string(recorder.outstanding()) + " events wait");
        }
        watch_manager();
    });
}

void Daemon::Service::wait_for_signal() {
    signals.async_wait([this](const boost::system::error_code& error, int signal) {
        if (error) {
            return;
        }
        if (signal == SIGHUP) {
            reload();
        } else {
            log.info("stopping", {{"signal", std::to_string(signal)}});
            begin_stop();
        }
        wait_for_signal();
    });
}

void Daemon::Service::reload() {
    notifier.reloading();
    auto fresh = setup.reload();
    if (!fresh.ok()) {
        log.error(
            "reload refused", {{"reason", fresh.error().context}, {"kept", "old configuration"}});
    } else {
        const Config& config = fresh.value();
        const bool needs_restart = config.socket != setup.config.socket
                                   || config.journal_dir != setup.config.journal_dir
                                   || config.segment_bytes != setup.config.segment_bytes
                                   || config.segments_max != setup.config.segments_max;
        if (needs_restart) {
            log.warn("reload", {{"remark", "socket and journal settings need a restart"}});
        }
        setup.config = config;
        configure(config);
        log.info("reloaded");
    }
    notifier.ready(status_line());
}

void Daemon::Service::begin_stop() {
    if (std::exchange(stopping, true)) {
        return;
    }
    notifier.stopping();
    listener.stop();
    desk.stop_reading();
    recorder.catch_up_all();
    static_cast<void>(makes_progress());  // counted from here
    wait_for_last_answers();
    after_work();
}

// As long as they come; then what is left is in the journal, or was never acked.
void Daemon::Service::wait_for_last_answers() {
    notifier.status("Stopping: " + std::to_string(recorder.outstanding()) + " events on their way");
    notifier.extend_timeout(2 * stop_patience);
    stop_timer.expires_after(stop_patience);
    stop_timer.async_wait([this](const boost::system::error_code& error) {
        if (error) {
            return;
        }
        if (makes_progress() && recorder.outstanding() > 0) {
            wait_for_last_answers();
            return;
        }
        log.warn("stopping", {{"remark", "some events were not answered in time"}});
        end_stop();
    });
}

void Daemon::Service::end_stop() {
    if (!result) {
        result = DaemonExit::stopped;
    }
    desk.close_all();
    io.stop();
}

void Daemon::Service::journal_failed() {
    log.error("journal failed", {{"reason", pipeline.failure().value_or("unknown")}});
    result = DaemonExit::storage_failed;
    listener.stop();
    desk.close_all();
    io.stop();
}

Daemon::Daemon(DaemonSetup setup, const Log& log, const ServiceNotifier& notifier)
    : service_(std::make_unique<Service>(std::move(setup), log, notifier)) {
}

Daemon::~Daemon() = default;

DaemonExit Daemon::run() {
    return service_->run();
}

bool Daemon::was_told_to_stop() const {
    return service_->stopping;
}

}  // namespace relay::daemon
