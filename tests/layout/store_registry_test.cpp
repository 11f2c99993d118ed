// SPDX-License-Identifier: Apache-2.0
#include "layout/store_registry.hpp"
#include "tests/support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <string>

using relay::layout::known_stores;
using relay::layout::Store;
using relay::layout::user_store;
using relay::layout::UserDirectories;
using relay::tests::TemporaryDirectory;

TEST_CASE("the registry of stores names each repository once after the user store") {
    const TemporaryDirectory directory;
    UserDirectories user;
    user.state = directory.path();
    std::ofstream(directory.path() + "/stores.json")
        << R"({"v":1,"stores":[{"anchor":"/a","below":".agent-relay","repo":true},)"
           R"({"anchor":"/a","below":".agent-relay","repo":true},)"
           R"({"anchor":"relative","below":".agent-relay"},{"anchor":7,"below":[]},"x",)"
           R"({"anchor":"/b","below":""},{"anchor":"/c","below":"x"}]})";
    const std::vector<Store> stores = known_stores(user);
    REQUIRE(stores.size() == 3);
    CHECK(stores[0] == user_store(user));
    CHECK(stores[1] == Store{"/a", ".agent-relay", true});
    CHECK(stores[2] == Store{"/c", "x", true});
}

TEST_CASE("a missing or damaged registry of stores names the user store alone") {
    const TemporaryDirectory directory;
    UserDirectories user;
    user.state = directory.path();
    CHECK(known_stores(user).size() == 1);
    for (const std::string& text :
         {std::string("{"),
          std::string("[]"),
          std::string(R"({"stores":{}})"),
          std::string(100000, '[')}) {
        std::ofstream(directory.path() + "/stores.json") << text;
        CHECK(known_stores(user).size() == 1);
    }
}
