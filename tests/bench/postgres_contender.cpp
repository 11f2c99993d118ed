// SPDX-License-Identifier: Apache-2.0

// PostgreSQL: a row an event, a connection a client, a commit whenever somebody waits.

#include "tests/bench/contender.hpp"
#include "tests/bench/sample.hpp"

#include <boost/filesystem.hpp>

#include <libpq-fe.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <thread>

namespace relay::tests {

namespace {

namespace fs = boost::filesystem;

constexpr const char* server_user = "postgres";  // it refuses to run as root

// It takes connections before it is ready to serve them.
PGconn* connect_when_ready(const std::string& target) {
    constexpr std::chrono::seconds patience{30};
    const auto limit = Clock::now() + patience;
    for (;;) {
        PGconn* const connection = PQconnectdb(target.c_str());
        if (PQstatus(connection) == CONNECTION_OK) {
            return connection;
        }
        if (Clock::now() > limit) {
            fail(std::string("PostgreSQL: ") + PQerrorMessage(connection));
        }
        PQfinish(connection);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

class PostgresTalker final : public Talker {
public:
    PostgresTalker(const std::string& directory, int number)
        : session_("client-" + std::to_string(number)),
          connection_(connect_when_ready("host=" + directory + " user=relay dbname=postgres")) {
        run("SET client_min_messages = warning");
        run("CREATE TABLE IF NOT EXISTS events (id bigserial PRIMARY KEY, session text, type text, "
            "body text)");
        PGresult* const prepared = PQprepare(
            connection_,
            "put",
            "INSERT INTO events (session, type, body) VALUES ($1, $2, $3)",
            3,
            nullptr);
        require(PQresultStatus(prepared) == PGRES_COMMAND_OK);
        PQclear(prepared);
        require(PQenterPipelineMode(connection_) == 1 && PQsetnonblocking(connection_, 1) == 0);
        for (const Step step : {Step::prompt, Step::chunk, Step::standard_error, Step::end}) {
            bodies_[static_cast<std::size_t>(step)] = members_of(step);
        }
    }
    ~PostgresTalker() override { PQfinish(connection_); }

    // One transaction from the first event after a commit to the next awaited one.
    void prepare(Step step, bool awaited) override {
        const std::string type(type_of(step));
        const std::array<const char*, 3> values{
            session_.c_str(), type.c_str(), bodies_[static_cast<std::size_t>(step)].c_str()};
        require(
            PQsendQueryPrepared(connection_, "put", 3, values.data(), nullptr, nullptr, 0) == 1);
        if (awaited) {
            require(PQpipelineSync(connection_) == 1);
        }
    }

    void flush() override { require(PQflush(connection_) >= 0); }

    std::size_t receive() override {
        require(PQconsumeInput(connection_) == 1);
        std::size_t answers = 0;
        int nothing = 0;
        // Null stands between the results of two statements; two in a row, and nothing more has come.
        while (PQisBusy(connection_) == 0 && nothing < 2) {
            PGresult* const result = PQgetResult(connection_);
            if (result == nullptr) {
                ++nothing;
                continue;
            }
            nothing = 0;
            const ExecStatusType status = PQresultStatus(result);
            PQclear(result);
            require(status == PGRES_COMMAND_OK || status == PGRES_PIPELINE_SYNC);
            answers += status == PGRES_PIPELINE_SYNC ? 1 : 0;
        }
        return answers;
    }

    int descriptor() const override { return PQsocket(connection_); }

private:
    void require(bool good) {
        if (!good) {
            fail(std::string("PostgreSQL: ") + PQerrorMessage(connection_));
        }
    }
    void run(const char* statement) {
        PGresult* const result = PQexec(connection_, statement);
        require(PQresultStatus(result) == PGRES_COMMAND_OK);
        PQclear(result);
    }

    std::string session_;
    std::array<std::string, 4> bodies_;  // by Step
    PGconn* connection_;
};

std::string newest_programs() {
    std::string newest;
    boost::system::error_code none;
    for (const auto& version : fs::directory_iterator("/usr/lib/postgresql", none)) {
        if (fs::exists(version.path() / "bin" / "initdb")) {
            newest = std::max(newest, (version.path() / "bin").string());
        }
    }
    return newest;
}

void give_to_server_user(const std::string& directory) {
    if (::geteuid() != 0) {
        return;
    }
    const passwd* const user = ::getpwnam(server_user);  // NOLINT(concurrency-mt-unsafe)
    if (user == nullptr || ::chown(directory.c_str(), user->pw_uid, user->pw_gid) != 0) {
        fail("cannot give " + directory + " to the user postgres");
    }
}

ServerStart base_start(const std::string& directory, std::vector<std::string> command) {
    ServerStart start;
    start.command = std::move(command);
    start.user = server_user;
    start.log = directory + "/log";
    start.end_signal = SIGINT;        // fast shutdown
    start.orphaned_signal = SIGQUIT;  // a killed one would leave its children behind
    return start;
}

std::string make_cluster(const std::string& directory, const std::string& programs) {
    give_to_server_user(directory);
    const ServerStart start = base_start(
        directory,
        {programs + "/initdb", "-D", directory + "/data", "-A", "trust", "-U", "relay", "-N"});
    ServerProcess made(start);
    if (!made.ends_well()) {
        fail("initdb failed; see " + start.log);
    }
    return directory + "/data";
}

ServerStart server_start(const ContenderSetup& setup, const std::string& programs) {
    const std::string data = make_cluster(setup.directory, programs);
    ServerStart start = base_start(
        setup.directory,
        {programs + "/postgres",
         "-D",
         data,
         "-c",
         "listen_addresses=",
         "-c",
         "unix_socket_directories=" + setup.directory,
         "-c",
         "max_connections=" + std::to_string(setup.clients + 16)});
    start.socket = setup.directory + "/.s.PGSQL.5432";
    start.environment = counted_environment(setup);
    return start;
}

class Postgres final : public Contender {
public:
    Postgres(const ContenderSetup& setup, const std::string& programs)
        : directory_(setup.directory), server_(server_start(setup, programs)) {}
    std::unique_ptr<Talker> connect(int number) override {
        return std::make_unique<PostgresTalker>(directory_, number);
    }
    ServerProcess& server() override { return server_; }

private:
    std::string directory_;
    ServerProcess server_;
};

}  // namespace

std::unique_ptr<Contender> make_postgres(const ContenderSetup& setup) {
    const std::string programs = newest_programs();
    return programs.empty() ? nullptr : std::make_unique<Postgres>(setup, programs);
}

}  // namespace relay::tests
