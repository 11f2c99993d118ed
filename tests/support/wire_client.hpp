// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace relay::tests {

using Json = nlohmann::json;

// A connection to the daemon as a client of ten lines would have it: blocking, one thread at a time.
// Sending reads what comes in meanwhile, so that neither side waits for the other.
class WireClient {
public:
    static constexpr std::chrono::milliseconds patience = std::chrono::seconds(20);

    explicit WireClient(const std::string& socket);
    WireClient(const WireClient&) = delete;
    WireClient& operator=(const WireClient&) = delete;
    WireClient(WireClient&& other) noexcept;
    WireClient& operator=(WireClient&& other) noexcept;
    ~WireClient();

    [[nodiscard]] bool connected() const { return fd_ >= 0; }
    [[nodiscard]] int descriptor() const { return fd_; }
    void close();

    // False when the other side closed before all was taken.
    bool send_bytes(std::string_view bytes);
    bool send_line(std::string_view line);
    bool send(const Json& request) { return send_line(request.dump()); }

    // The next line without its newline; none at the end of the stream or when `limit` has passed.
    [[nodiscard]] std::optional<std::string> read_line(std::chrono::milliseconds limit = patience);
    // Likewise, parsed; discarded (see Json::is_discarded) when there is none.
    [[nodiscard]] Json read(std::chrono::milliseconds limit = patience);
    // Reads on until the other side closes; false when it does not in time.
    [[nodiscard]] bool read_to_end(std::chrono::milliseconds limit = patience);
    [[nodiscard]] bool at_end() const { return ended_; }

    // Sends with an id of its own and returns the answer to it; lines with another id are passed over.
    // An empty object when no answer comes.
    Json request(Json request, std::chrono::milliseconds limit = patience);

    // An event of a session, with these fields beside type and session.
    Json
    ask(std::string_view type, const std::string& session, const Json& fields = Json::object());

private:
    // True when something came in or the end was seen.
    bool receive(std::chrono::milliseconds limit);

    int fd_ = -1;
    bool ended_ = false;
    std::string incoming_;
    std::size_t scanned_ = 0;  // of incoming_: no newline before here
    std::int64_t last_id_ = 0;
};

// The line of an event; `fields` may override anything.
[[nodiscard]] Json
event(std::string_view type, const std::string& session, const Json& fields = Json::object());

}  // namespace relay::tests
