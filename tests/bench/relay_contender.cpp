// SPDX-License-Identifier: Apache-2.0

// agent-relayd, and relay_peer, which takes the same lines.

#include "layout/session_reader.hpp"
#include "tests/bench/line_talker.hpp"

#include <boost/filesystem.hpp>
#include <nlohmann/json.hpp>

namespace relay::tests {

namespace {

using Json = nlohmann::json;

class RelayTalker final : public Talker {
public:
    RelayTalker(const std::string& socket, const std::string& cwd) : line_(socket) {
        const Json answer = Json::parse(line_.ask(
            R"("type":"session.start","agent":"custom","cwd":)" + Json(cwd).dump() + "}"));
        path_ = answer.value("path", "");
        line_.use_session(answer.value("session", ""));
    }
    void prepare(Step step, bool awaited) override { line_.prepare(step, awaited); }
    void flush() override { line_.flush(); }
    [[nodiscard]] std::size_t receive() override { return line_.receive(); }
    [[nodiscard]] int descriptor() const override { return line_.descriptor(); }

    // The sealed turns verify, and there are as many as were ended.
    void check() const {
        auto verified = layout::verify_session(path_);
        if (!verified.ok()) {
            fail("cannot verify " + path_ + ": " + verified.error().context);
        }
        const layout::Verification& found = verified.value();
        if (!found.damage.empty()) {
            fail(path_ + "/" + found.damage.front().file + ": " + found.damage.front().what);
        }
        if (found.turns != line_.ended_turns()) {
            fail(
                path_ + " has " + std::to_string(found.turns) + " sealed turns instead of "
                + std::to_string(line_.ended_turns()));
        }
    }

private:
    LineTalker line_;
    std::string path_;
};

ServerStart relay_start(const ContenderSetup& setup) {
    ServerStart start;
    start.socket = setup.directory + "/s";
    start.log = setup.directory + "/log";
    start.command = {setup.programs + "/agent-relayd", "--socket", start.socket};
    start.environment = counted_environment(setup);
    start.environment.emplace_back("AGENT_RELAY_HOME", setup.directory + "/home");
    return start;
}

class Relay final : public Contender {
public:
    explicit Relay(const ContenderSetup& setup)
        : directory_(setup.directory), server_(relay_start(setup)) {
        boost::filesystem::create_directory(directory_ + "/work");
    }
    std::unique_ptr<Talker> connect(int /*number*/) override {
        auto talker = std::make_unique<RelayTalker>(directory_ + "/s", directory_ + "/work");
        last_ = talker.get();
        return talker;
    }
    ServerProcess& server() override { return server_; }
    void check() override { last_->check(); }

private:
    std::string directory_;
    ServerProcess server_;
    RelayTalker* last_ = nullptr;
};

ServerStart peer_start(const ContenderSetup& setup) {
    ServerStart start;
    start.socket = setup.directory + "/s";
    start.log = setup.directory + "/log";
    start.command = {setup.tests + "/relay_peer", setup.name, setup.directory, start.socket};
    start.environment = counted_environment(setup);
    return start;
}

class Peer final : public Contender {
public:
    explicit Peer(const ContenderSetup& setup)
        : socket_(setup.directory + "/s"), server_(peer_start(setup)) {}
    std::unique_ptr<Talker> connect(int number) override {
        auto talker = std::make_unique<LineTalker>(socket_);
        talker->use_session("client-" + std::to_string(number));
        static_cast<void>(talker->ask(
            R"("type":"session.start","session":"client-)" + std::to_string(number) + R"("})"));
        return talker;
    }
    ServerProcess& server() override { return server_; }

private:
    std::string socket_;
    ServerProcess server_;
};

}  // namespace

std::unique_ptr<Contender> make_relay(const ContenderSetup& setup) {
    return std::make_unique<Relay>(setup);
}

std::unique_ptr<Contender> make_peer(const ContenderSetup& setup) {
    return std::make_unique<Peer>(setup);
}

}  // namespace relay::tests
