// SPDX-License-Identifier: Apache-2.0
#include "layout/session_paths.hpp"

#include "layout/utf8.hpp"

#include <cassert>
#include <cstddef>

namespace relay::layout {

namespace {

constexpr std::size_t name_bytes_max = 255;  // NAME_MAX of the common Linux file systems
constexpr std::string_view temporary_suffix = ".tmp";

std::string turn_file(std::int64_t turn, std::string_view rest) {
    assert(turn > 0);
    std::string number = std::to_string(turn);
    if (number.size() < 3) {
        number.insert(0, 3 - number.size(), '0');
    }
    return std::string{turns_directory} + '/' + number + std::string{rest};
}

// Where the last component begins.
std::size_t name_begin(std::string_view file) {
    const std::size_t slash = file.rfind('/');
    return slash == std::string_view::npos ? 0 : slash + 1;
}

// U+0000 … U+001F, U+007F … U+009F; the text is UTF-8.
bool has_control_character(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<std::uint8_t>(text[i]);
        if (byte < 0x20 || byte == 0x7f) {
            return true;
        }
        if (byte == 0xc2 && static_cast<std::uint8_t>(text[i + 1]) < 0xa0) {
            return true;
        }
    }
    return false;
}

Error refuse(std::string_view reason) {
    return {.code = Errc::invalid, .context = "attachment name " + std::string{reason}};
}

}  // namespace

std::string prompt_file(std::int64_t turn) {
    return turn_file(turn, "-prompt.md");
}

std::string output_file(std::int64_t turn) {
    return turn_file(turn, "-output.md");
}

std::string stderr_file(std::int64_t turn) {
    return turn_file(turn, "-stderr.log");
}

std::string state_file(std::int64_t turn) {
    return turn_file(turn, "-state.json");
}

std::string diff_file(std::int64_t turn) {
    return turn_file(turn, "-diff.patch");
}

std::string compressed_file(std::string_view file) {
    return std::string{file} + std::string{compressed_suffix};
}

std::string recovered_file(std::string_view file) {
    return std::string{recovered_directory} + '/' + std::string{file.substr(name_begin(file))};
}

std::string temporary_file(std::string_view file) {
    std::string hidden{file};
    hidden.insert(name_begin(file), 1, '.');
    hidden += temporary_suffix;
    return hidden;
}

bool is_temporary_name(std::string_view name) {
    return name.size() > 1 + temporary_suffix.size() && name.starts_with('.')
           && name.ends_with(temporary_suffix);
}

Result<std::string> attachment_file(std::string_view name) {
    if (name.empty()) {
        return refuse("is empty");
    }
    if (name.size() > name_bytes_max) {
        return refuse("is longer than 255 bytes");
    }
    if (!is_utf8(name)) {
        return refuse("is not UTF-8");
    }
    // "." and ".." are among them.
    if (name.starts_with('.')) {
        return refuse("begins with a dot");
    }
    if (name.find_first_of("/\\") != std::string_view::npos) {
        return refuse("holds a slash or backslash");
    }
    if (has_control_character(name)) {
        return refuse("holds a control character");
    }
    return std::string{attachments_directory} + '/' + std::string{name};
}

}  // namespace relay::layout
