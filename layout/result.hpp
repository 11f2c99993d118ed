// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace relay::layout {

// The failures this program reacts to differently. Anything nobody reacts to is Errc::io with the
// errno kept beside it; a value is added here only together with the code that branches on it.
enum class Errc {
    io,         // the kernel refused; see Error::os_errno
    no_space,   // ENOSPC or EDQUOT: the data is fine, the disk is full
    not_found,  // no such file, session or store
    exists,     // the name is taken
    corrupt,    // bytes on disk do not decode; never repaired silently
    invalid,    // input from outside breaks a rule; the context says which
    unsafe,     // a symbolic link, foreign owner or odd file type stands where ours should
    gone,       // the user deleted or moved it while it was in use
    busy,       // a bound was reached or somebody else holds it; trying later may help
    closed,     // the component is shutting down or has latched a failure
};

struct Error {
    Errc code = Errc::io;
    int os_errno = 0;
    std::string context;  // what was attempted on what: "rename /a -> /b: No space left on device"
};

// A value or the reason why there is none. Never throws; looking at the wrong side is a bug.
template<typename Value>
class [[nodiscard]] Result {
public:
    // NOLINTNEXTLINE(google-explicit-constructor): `return value;` is the point of the type
    Result(Value value) : state_(std::in_place_index<0>, std::move(value)) {}
    // NOLINTNEXTLINE(google-explicit-constructor): `return error;` likewise
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

    [[nodiscard]] bool ok() const { return state_.index() == 0; }

    [[nodiscard]] Value& value() {
        assert(ok());
        return *std::get_if<0>(&state_);
    }
    [[nodiscard]] const Value& value() const {
        assert(ok());
        return *std::get_if<0>(&state_);
    }
    [[nodiscard]] const Error& error() const {
        assert(!ok());
        return *std::get_if<1>(&state_);
    }

private:
    std::variant<Value, Error> state_;
};

struct Done {};
using Status = Result<Done>;

}  // namespace relay::layout
