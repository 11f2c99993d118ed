// SPDX-License-Identifier: Apache-2.0
#include "cli/escape_filter.hpp"

#include <cstddef>
#include <cstring>

namespace relay::cli {

namespace {

constexpr char escape = '\x1b';
constexpr std::size_t parameters_max = 64;

}  // namespace

bool EscapeFilter::leaves_alone(std::string_view bytes) const {
    return source_ == Source::pipe && state_ == State::text && !alternate_
           && bytes.find(escape) == std::string_view::npos;
}

void EscapeFilter::filter(std::string_view bytes, std::string& text) {
    std::size_t at = 0;
    while (at < bytes.size()) {
        if (state_ != State::text) {
            step(bytes[at++], text);
            continue;
        }
        const void* const found = std::memchr(bytes.data() + at, escape, bytes.size() - at);
        const std::size_t end =
            found == nullptr
                ? bytes.size()
                : static_cast<std::size_t>(static_cast<const char*>(found) - bytes.data());
        emit(bytes.substr(at, end - at), text);
        at = end;
        if (at < bytes.size()) {
            state_ = State::escape;
            ++at;
        }
    }
}

// The grammar of ECMA-48, and the strings of xterm that may end in BEL.
void EscapeFilter::step(char byte, std::string& text) {
    const auto code = static_cast<unsigned char>(byte);
    if (state_ == State::string_escape) {
        if (byte == '\\') {
            state_ = State::text;
            return;
        }
        state_ = State::escape;  // the string has no proper end: another sequence begins
    }
    switch (state_) {
    case State::text:
    case State::string_escape:
        break;
    case State::escape:
        if (byte == '[') {
            parameters_.clear();
            state_ = State::control;
        } else if (byte == ']' || byte == 'P' || byte == '_' || byte == '^' || byte == 'X') {
            state_ = State::string;
        } else if (code >= 0x20 && code <= 0x2f) {
            state_ = State::escape_more;
        } else if (byte != escape) {
            state_ = State::text;
            if (code < 0x20) {
                emit(
                    std::string_view(&byte, 1),
                    text);  // no sequence goes on behind a control character
            }
        }
        break;
    case State::escape_more:
        state_ = code >= 0x20 && code <= 0x2f ? State::escape_more : State::text;
        break;
    case State::control:
        if (code >= 0x40 && code <= 0x7e) {
            end_control(byte);
            state_ = State::text;
        } else if (code >= 0x20 && code <= 0x3f) {
            if (parameters_.size() < parameters_max) {
                parameters_ += byte;
            }
        } else if (byte == escape) {
            state_ = State::escape;
        } else {
            state_ = State::text;
            emit(std::string_view(&byte, 1), text);
        }
        break;
    case State::string:
        if (byte == '\a') {
            state_ = State::text;
        } else if (byte == escape) {
            state_ = State::string_escape;
        } else if (byte == '\n') {
            state_ = State::text;  // a string that never ended must not swallow the rest
            emit(std::string_view(&byte, 1), text);
        }
        break;
    }
}

void EscapeFilter::end_control(char final) {
    if (final != 'h' && final != 'l') {
        return;
    }
    if (parameters_ == "?1049" || parameters_ == "?1047" || parameters_ == "?47") {
        alternate_ = final == 'h';
    }
}

void EscapeFilter::emit(std::string_view bytes, std::string& text) {
    if (alternate_) {
        return;
    }
    if (source_ == Source::pipe) {
        text += bytes;
        return;
    }
    for (const char byte : bytes) {
        emit_from_terminal(byte, text);
    }
}

void EscapeFilter::emit_from_terminal(char byte, std::string& text) {
    if (byte == '\r') {
        carriage_returned_ = true;
        return;
    }
    if (carriage_returned_ && byte != '\n' && !line_is_empty_) {
        text += '\n';
        line_is_empty_ = true;
    }
    carriage_returned_ = false;
    if (byte == '\b' || byte == '\a' || byte == '\0') {
        return;
    }
    text += byte;
    line_is_empty_ = byte == '\n';
}

}  // namespace relay::cli
