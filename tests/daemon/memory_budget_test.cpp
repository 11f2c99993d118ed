// SPDX-License-Identifier: Apache-2.0
#include "daemon/memory_budget.hpp"

#include <doctest/doctest.h>

using relay::daemon::MemoryBudget;

namespace {

MemoryBudget budget_of(std::int64_t bound) {
    MemoryBudget budget;
    budget.set_bound(bound);
    return budget;
}

TEST_CASE("an event costs more than its line and a small one not next to nothing") {
    CHECK(MemoryBudget::cost_of_event(1'000'000) > 1'400'000);
    CHECK(MemoryBudget::cost_of_event(1) > 500);
}

TEST_CASE("senders wait from the bound on until half of it is answered") {
    MemoryBudget budget = budget_of(1000);
    budget.taken_in(1000);
    CHECK_FALSE(budget.exceeded());
    budget.taken_in(1);
    CHECK(budget.exceeded());
    budget.answered(500);
    CHECK_FALSE(budget.relieved());
    budget.answered(1);
    CHECK(budget.relieved());
    CHECK(budget.unanswered() == 500);
}

TEST_CASE("what connections hold takes from the bound but keeps nobody waiting for ever") {
    MemoryBudget budget = budget_of(1000);
    budget.held(990);
    CHECK_FALSE(budget.exceeded());
    budget.taken_in(11);
    CHECK(budget.exceeded());
    CHECK(budget.relieved());
    budget.held(-990);
    CHECK_FALSE(budget.exceeded());
}

TEST_CASE("less is read at once when room gets scarce but always something") {
    MemoryBudget budget = budget_of(100'000);
    CHECK(budget.read_bytes(50'000) == 50'000);
    budget.taken_in(30'000);
    budget.held(50'000);
    CHECK(budget.read_bytes(50'000) == 20'000);
    budget.held(1'000'000);
    CHECK(budget.read_bytes(50'000) == 4096);
}

}  // namespace
