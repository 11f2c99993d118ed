// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/filesystem.hpp>

#include <stdlib.h>

#include <string>

namespace relay::tests {

// A directory of its own under $TMPDIR or /tmp, removed with everything in it at the end of the scope.
// path() is canonical and has no trailing slash.
class TemporaryDirectory {
public:
    TemporaryDirectory() {
        const char* const base = ::getenv("TMPDIR");
        const bool usable = base != nullptr && base[0] == '/';
        std::string pattern = std::string(usable ? base : "/tmp") + "/relay-test-XXXXXX";
        if (::mkdtemp(pattern.data()) == nullptr) {
            ::abort();
        }
        path_ = boost::filesystem::canonical(pattern).string();
    }
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    ~TemporaryDirectory() {
        boost::system::error_code ignored;
        boost::filesystem::remove_all(path_, ignored);
    }

    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_;
};

}  // namespace relay::tests
