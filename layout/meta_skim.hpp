// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/documents.hpp"
#include "layout/result.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace relay::layout {

// Reads of a meta.json what lists and filters show: everything but `command`, `objective`, `capture`,
// `chain`, `extra` and unknown members, which stay empty. Ten times as fast as decode_meta and with the
// same verdicts on the members it reads. One thread at a time.
class MetaSkimmer {
public:
    MetaSkimmer();
    MetaSkimmer(const MetaSkimmer&) = delete;
    MetaSkimmer& operator=(const MetaSkimmer&) = delete;
    MetaSkimmer(MetaSkimmer&&) noexcept;
    MetaSkimmer& operator=(MetaSkimmer&&) = delete;
    ~MetaSkimmer();

    // Errc::corrupt when it is no meta.json, Errc::invalid when its "v" is newer than this program.
    [[nodiscard]] Result<Meta> skim(std::string_view text);

    // The same of the meta.json in a session's directory; the context of an error names the file. `text`
    // gets what was read.
    [[nodiscard]] Result<Meta>
    skim_session(const std::string& session_directory, std::string& text);

private:
    struct Parser;
    std::unique_ptr<Parser> parser_;
};

// A JSON document as one line.
[[nodiscard]] std::string minified_json(std::string_view json);

}  // namespace relay::layout
