// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/journal_change.hpp"
#include "layout/session_paths.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace relay::tests {

// Everything that one session has submitted, and so everything its files may ever hold.
class SessionOracle {
public:
    using Files = std::map<std::string, std::string, std::less<>>;
    using Found = std::map<std::string, std::string_view, std::less<>>;
    static constexpr std::int64_t any_seq = -1;

    // The number of the change, counted from 1.
    std::size_t submit(std::string change) {
        layout::ChangeReader reader(change);
        const auto whole = reader.next();
        const std::int64_t seq = whole ? whole->header.client_seq : 0;
        layout::EffectReader effects(*whole);
        while (const auto effect = effects.next()) {
            if (effect->kind == layout::EffectKind::replace_synced) {
                versions_.emplace(effect->name, hash(effect->data));
            }
        }
        const std::int64_t last = changes_.empty() ? 0 : changes_.back().last_seq;
        changes_.push_back({std::move(change), std::max(last, seq)});
        return changes_.size();
    }

    void acknowledge(std::size_t number) { acked_ = std::max(acked_, number); }

    // What the process lost with it: nobody was told of the changes after the first `count`.
    void forget_after(std::size_t count) { changes_.resize(count); }

    [[nodiscard]] std::size_t submitted() const { return changes_.size(); }
    [[nodiscard]] std::size_t acked() const { return acked_; }
    [[nodiscard]] const std::string& change(std::size_t number) const {
        return changes_[number - 1].bytes;
    }
    [[nodiscard]] std::int64_t acked_seq() const { return seq_after(acked_); }
    [[nodiscard]] std::int64_t seq_after(std::size_t count) const {
        return count == 0 ? 0 : changes_[count - 1].last_seq;
    }

    // Whether this was ever the whole content of the document.
    [[nodiscard]] bool knows_version(std::string_view name, std::string_view content) const {
        return versions_.contains({std::string(name), hash(content)});
    }

    // The greatest n such that `found` is the outcome of the first n changes; with a seq, of those that end
    // with this number of the client. None when there is no such n, or only smaller ones than were acknowledged.
    [[nodiscard]] std::optional<std::size_t>
    match(const Found& found, const std::set<std::string, std::less<>>& besides, std::int64_t seq) {
        while (folded_ < acked_) {
            fold(changes_[folded_++].bytes, base_);
        }
        std::optional<std::size_t> best;
        const bool has_seq = seq == any_seq || seq_after(folded_) == seq;
        if (has_seq && same(base_, found, besides)) {
            best = folded_;
        }
        if (folded_ == changes_.size()) {
            return best;
        }
        Files expected = base_;
        for (std::size_t count = folded_; count < changes_.size();) {
            fold(changes_[count++].bytes, expected);
            if (same(expected, found, besides) && (seq == any_seq || seq_after(count) == seq)) {
                best = count;
            }
        }
        return best;
    }

    // The outcome of everything submitted.
    [[nodiscard]] Files outcome() const {
        Files files = base_;
        for (std::size_t index = folded_; index < changes_.size(); ++index) {
            fold(changes_[index].bytes, files);
        }
        return files;
    }

    // For a message: how `found` differs from the outcome of each number of changes it could be.
    [[nodiscard]] std::string
    differences(const Found& found, const std::set<std::string, std::less<>>& besides) const {
        Files files = base_;
        std::string all = std::to_string(folded_) + ": " + difference(files, found, besides);
        for (std::size_t count = folded_; count < changes_.size();) {
            fold(changes_[count++].bytes, files);
            all += "\n" + std::to_string(count) + ": " + difference(files, found, besides);
        }
        return all;
    }

    // For a message: the first file in which both differ.
    [[nodiscard]] static std::string difference(
        const Files& expected,
        const Found& found,
        const std::set<std::string, std::less<>>& besides) {
        for (const auto& [name, content] : expected) {
            const auto other = found.find(name);
            if (besides.contains(name)) {
                continue;
            }
            if (other == found.end()) {
                return name + " is missing";
            }
            if (other->second != content) {
                return name + " has " + std::to_string(other->second.size()) + " bytes, expected "
                       + std::to_string(content.size())
                       + "\n  found:    " + std::string(other->second.substr(0, 1500))
                       + "\n  expected: " + content.substr(0, 1500);
            }
        }
        for (const auto& [name, content] : found) {
            if (!expected.contains(name) && !besides.contains(name)) {
                return name + " should not be there";
            }
        }
        return "nothing";
    }

private:
    struct Change {
        std::string bytes;
        std::int64_t last_seq = 0;  // of the client, after this one
    };

    static std::uint64_t hash(std::string_view text) { return std::hash<std::string_view>()(text); }

    static bool same(
        const Files& expected,
        const Found& found,
        const std::set<std::string, std::less<>>& besides) {
        if (besides.empty()) {
            return std::equal(
                expected.begin(),
                expected.end(),
                found.begin(),
                found.end(),
                [](const auto& left, const auto& right) {
                    return left.first == right.first && left.second == right.second;
                });
        }
        return difference(expected, found, besides) == "nothing";
    }

    static void fold(std::string_view bytes, Files& files) {
        layout::ChangeReader reader(bytes);
        while (const auto change = reader.next()) {
            layout::EffectReader effects(*change);
            while (const auto effect = effects.next()) {
                apply(*effect, files);
            }
        }
    }

    static void apply(const layout::Effect& effect, Files& files) {
        const auto content_of = [&files, &effect]() -> std::string& {
            const auto known = files.find(effect.name);
            return known != files.end() ? known->second : files[std::string(effect.name)];
        };
        switch (effect.kind) {
        case layout::EffectKind::append: {
            std::string& content = content_of();
            const auto offset = static_cast<std::size_t>(effect.offset);
            content.resize(std::max(content.size(), offset), '\0');
            content.replace(offset, effect.data.size(), effect.data);
            return;
        }
        case layout::EffectKind::replace:
        case layout::EffectKind::replace_synced:
            content_of() = effect.data;
            return;
        case layout::EffectKind::remove:
            files.erase(std::string(effect.name));
            return;
        case layout::EffectKind::claim:
        case layout::EffectKind::link_latest:
        case layout::EffectKind::settle:
            return;
        }
    }

    std::vector<Change> changes_;
    std::size_t acked_ = 0;
    std::size_t folded_ = 0;
    Files base_;  // the outcome of the first `folded_` changes
    std::set<std::pair<std::string, std::uint64_t>> versions_;
};

}  // namespace relay::tests
