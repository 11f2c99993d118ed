// SPDX-License-Identifier: Apache-2.0
#include "layout/journal_change.hpp"
#include "recorder/session_files.hpp"
#include "recorder/superseded.hpp"
#include "tests/support/model_disk.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

namespace relay::recorder {
namespace {

using layout::Effect;
using layout::EffectKind;

struct SomeItems {
    std::shared_ptr<SessionFiles> session(const char* text) {
        layout::Claim claim;
        claim.anchor = "/one";
        return std::make_shared<SessionFiles>(disk, layout::Ulid::parse(text).value(), claim);
    }
    void add(const std::shared_ptr<SessionFiles>& files, const std::vector<Effect>& effects) {
        WorkItem item;
        item.files = files;
        layout::ChangeWriter writer(
            item.change, {files->id, static_cast<std::int64_t>(items.size()) + 1, 0});
        for (const Effect& effect : effects) {
            writer.add(effect);
        }
        writer.finish();
        items.push_back(std::move(item));
    }
    // What is left of the change: the data of its effects, or the name of what is removed.
    [[nodiscard]] std::string left(std::size_t index) const {
        layout::ChangeReader changes(items[index].change);
        const auto change = changes.next();
        REQUIRE(change);
        CHECK(change->header.client_seq == static_cast<std::int64_t>(index) + 1);
        std::string all;
        layout::EffectReader effects(*change);
        while (const auto effect = effects.next()) {
            all +=
                std::string(effect->kind == EffectKind::remove ? effect->name : effect->data) + " ";
        }
        CHECK_FALSE(effects.damaged());
        return all;
    }

    tests::ModelDisk disk{{"/one"}};
    std::shared_ptr<SessionFiles> first = session("01J9X3M7K5VBHQEN6T2F4D8RPZ");
    std::shared_ptr<SessionFiles> second = session("01J9X3M7K5VBHQEN6T2F4D8RQ0");
    std::vector<WorkItem> items;
};

Effect replaced(std::string_view name, std::string_view data) {
    return {EffectKind::replace_synced, name, data, 0};
}

Effect grown(std::string_view data) {
    return {EffectKind::append, "events.jsonl", data, 0};
}

}  // namespace

TEST_CASE("of several versions of a document the last is left and everything that grows") {
    SomeItems some;
    some.add(some.first, {grown("a"), replaced("meta.json", "1")});
    some.add(some.second, {replaced("meta.json", "other")});
    some.add(some.first, {replaced("meta.json", "2"), grown("b"), replaced("meta.json", "3")});
    some.add(some.first, {grown("c"), replaced("turns/001-state.json", "seal")});
    drop_superseded(some.items);
    CHECK(some.left(0) == "a ");
    CHECK(some.left(1) == "other ");
    CHECK(some.left(2) == "b 3 ");
    CHECK(some.left(3) == "c seal ");
}

TEST_CASE("a document that is removed later needs no version before") {
    SomeItems some;
    some.add(some.first, {replaced("resume.json", "1")});
    some.add(some.first, {{EffectKind::remove, "resume.json", "", 0}});
    drop_superseded(some.items);
    CHECK(some.left(0).empty());
    CHECK(some.left(1) == "resume.json ");
    some.add(some.first, {replaced("resume.json", "2")});
    drop_superseded(some.items);
    CHECK(some.left(1).empty());
    CHECK(some.left(2) == "2 ");
}

TEST_CASE("the store's link to its newest session is made once") {
    SomeItems some;
    some.add(some.first, {{EffectKind::link_latest, "", "first", 0}});
    some.add(some.second, {{EffectKind::link_latest, "", "second", 0}});
    drop_superseded(some.items);
    CHECK(some.left(0).empty());
    CHECK(some.left(1) == "second ");
}

}  // namespace relay::recorder
