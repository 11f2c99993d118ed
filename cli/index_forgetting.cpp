// SPDX-License-Identifier: Apache-2.0
#include "cli/index_forgetting.hpp"

#include "cli/command_line.hpp"
#include "cli/index_file.hpp"
#include "cli/index_notes.hpp"

namespace relay::cli {

void forget_in_index(const Surroundings& surroundings) {
    const std::string cache_directory = index_directory(surroundings.environment);
    if (cache_directory.empty()) {
        return;
    }
    if (const layout::Status removed = remove_index(cache_directory, IfOpen::wait); !removed.ok()) {
        static_cast<void>(complain(
            surroundings,
            ExitCode::ok,
            "the index \"" + index_path(cache_directory) + "\" may still hold what was removed: "
                + removed.error().context + "; remove it by hand"));
    }
}

}  // namespace relay::cli
