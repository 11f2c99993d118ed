// SPDX-License-Identifier: Apache-2.0
#include "cli/trust_list.hpp"
#include "tests/support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

using relay::cli::revoke_trust;
using relay::cli::trust;
using relay::cli::TrustList;
using relay::layout::Errc;
using relay::tests::TemporaryDirectory;

TEST_CASE("trust is bound to a file and to its content") {
    const TemporaryDirectory directory;
    const std::string state = directory.path() + "/a/state";
    CHECK(TrustList::read(state).value().files().empty());
    REQUIRE(trust(state, "/r/config.toml", "one").ok());
    const auto list = TrustList::read(state);
    REQUIRE(list.ok());
    CHECK(list.value().trusts("/r/config.toml", "one"));
    CHECK_FALSE(list.value().trusts("/r/config.toml", "two"));
    CHECK_FALSE(list.value().trusts("/s/config.toml", "one"));
    REQUIRE(trust(state, "/r/config.toml", "two").ok());
    CHECK(TrustList::read(state).value().files().size() == 1);
    CHECK_FALSE(TrustList::read(state).value().trusts("/r/config.toml", "one"));
    CHECK(revoke_trust(state, "/r/config.toml").value());
    CHECK_FALSE(revoke_trust(state, "/r/config.toml").value());
    CHECK_FALSE(TrustList::read(state).value().trusts("/r/config.toml", "two"));
    struct stat status {};
    REQUIRE(::stat((state + "/trust.json").c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("a damaged list trusts nothing and is not written over") {
    const TemporaryDirectory directory;
    const std::string file = directory.path() + "/trust.json";
    for (const std::string text :
         {"",
          "{",
          "[]",
          R"({"v":2,"trusted":[]})",
          R"({"v":"1","trusted":[]})",
          R"({"v":1})",
          R"({"v":1,"trusted":[7]})",
          R"({"v":1,"trusted":[{"file":"/r/config.toml"}]})"}) {
        CAPTURE(text);
        std::ofstream(file) << text;
        CHECK(TrustList::read(directory.path()).error().code == Errc::corrupt);
        CHECK_FALSE(trust(directory.path(), "/r/config.toml", "one").ok());
        std::ifstream again(file);
        CHECK(std::string(std::istreambuf_iterator<char>(again), {}) == text);
    }
}

TEST_CASE("those who trust at the same time do not undo each other") {
    const TemporaryDirectory directory;
    std::vector<std::thread> threads;
    for (int number = 0; number < 8; ++number) {
        threads.emplace_back([&directory, number] {
            static_cast<void>(
                trust(directory.path(), "/r" + std::to_string(number) + "/config.toml", "text"));
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(TrustList::read(directory.path()).value().files().size() == 8);
}
