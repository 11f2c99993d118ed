// SPDX-License-Identifier: Apache-2.0
#include "cli/prometheus_text.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cctype>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

namespace {

using nlohmann::ordered_json;

bool is_name(std::string_view text) {
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())) != 0) {
        return false;
    }
    for (const char letter : text) {
        if (std::isalnum(static_cast<unsigned char>(letter)) == 0 && letter != '_') {
            return false;
        }
    }
    return true;
}

// The text format, version 0.0.4, as its grammar has it: what is wrong with the text; "" when nothing is. `samples` gets every
// line's name and labels with its value.
class Exposition {
public:
    std::string read(const std::string& text) {
        if (text.empty() || text.back() != '\n') {
            return "does not end in a newline";
        }
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) {
            const std::string wrong = line.starts_with("# ") ? comment(line) : sample(line);
            if (!wrong.empty()) {
                return wrong + ": " + line;
            }
        }
        return histograms();
    }

    std::map<std::string, double> samples;

private:
    std::string comment(const std::string& line) {
        std::istringstream words(line);
        std::string hash;
        std::string kind;
        std::string name;
        std::string rest;
        words >> hash >> kind >> name >> rest;
        if (kind == "HELP") {
            return !is_name(name) || rest.empty() || !helped_.insert(name).second ? "bad HELP" : "";
        }
        const std::set<std::string> types{"counter", "gauge", "histogram"};
        if (kind != "TYPE" || !types.contains(rest) || !types_.emplace(name, rest).second) {
            return "bad TYPE";
        }
        // All lines of a metric stand together.
        current_ = name;
        return helped_.contains(name) ? "" : "TYPE without HELP";
    }

    std::string sample(const std::string& line) {
        const std::size_t end = line.find_first_of("{ ");
        const std::string name = line.substr(0, end);
        std::string family = name;
        if (types_[current_] == "histogram") {
            for (const std::string_view suffix : {"_bucket", "_sum", "_count"}) {
                if (name == current_ + std::string(suffix)) {
                    family = current_;
                }
            }
        }
        if (!is_name(name) || family != current_) {
            return "a sample outside its metric";
        }
        if (types_[current_] == "counter" && !name.ends_with("_total")) {
            return "a counter without _total";
        }
        std::size_t at = end;
        if (at != std::string::npos && line[at] == '{') {
            at = labels(line, at + 1);
            if (at == std::string::npos) {
                return "bad labels";
            }
        }
        if (at == std::string::npos || line[at] != ' ') {
            return "no value";
        }
        char* rest = nullptr;
        const double value = std::strtod(line.c_str() + at + 1, &rest);
        if (rest == line.c_str() + at + 1 || *rest != '\0') {
            return "bad value";
        }
        return samples.emplace(line.substr(0, at), value).second ? "" : "the same sample twice";
    }

    // The offset behind the closing brace.
    static std::size_t labels(const std::string& line, std::size_t at) {
        for (;;) {
            const std::size_t equals = line.find("=\"", at);
            if (equals == std::string::npos || !is_name(line.substr(at, equals - at))) {
                return std::string::npos;
            }
            for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
                if (line[at] == '\\') {
                    if (++at == line.size()
                        || std::string_view("\\\"n").find(line[at]) == std::string_view::npos) {
                        return std::string::npos;
                    }
                }
            }
            if (at + 1 >= line.size()) {
                return std::string::npos;
            }
            if (line[++at] == '}') {
                return at + 1;
            }
            if (line[at++] != ',') {
                return std::string::npos;
            }
        }
    }

    // Buckets rise, and the last one, +Inf, is the count.
    std::string histograms() {
        for (const auto& [name, type] : types_) {
            if (type != "histogram") {
                continue;
            }
            std::map<double, double> buckets;
            for (const auto& [key, value] : samples) {
                const std::string head = name + "_bucket{le=\"";
                if (key.starts_with(head)) {
                    buckets[std::strtod(key.c_str() + head.size(), nullptr)] = value;
                }
            }
            double last = 0;
            for (const auto& [bound, count] : buckets) {
                if (count < last) {
                    return name + " falls";
                }
                last = count;
            }
            if (!samples.contains(name + "_bucket{le=\"+Inf\"}") || !samples.contains(name + "_sum")
                || samples[name + "_count"] != last) {
                return name + " is no histogram";
            }
        }
        return "";
    }

    std::set<std::string> helped_;
    std::map<std::string, std::string> types_;
    std::string current_;
};

ordered_json example() {
    return ordered_json::parse(
        R"({"type":"ack","id":1,"version":"0.1.0","protocol":1,"pid":7,"uptime_ms":1500,
        "sessions":2,"connections":3,"followers":0,"events":10,"acks":9,"redactions":1,"queue_depth":1,"inflight_bytes":512,
        "journal_bytes":4096,"journal_lsn":5,"checkpoint_age_ms":250,"commits":4,"changes":12,
        "fsync_us":[{"below":512,"count":3},{"below":2048,"count":1}],"fsync_us_sum":2500,
        "volumes":[{"name":"8:1","anchor":"/home/a \"b\"\\\nc","state":"deferred","reason":"full","sessions":2,"queued":4}],
        "errors":{"refused":6,"refused_connections":0,"journal":null,"checkpoint":"disk full"}})");
}

}  // namespace

TEST_CASE("the daemon's status is a text that Prometheus reads") {
    const std::string text = relay::cli::prometheus_text(example());
    Exposition exposition;
    CAPTURE(text);
    CHECK(exposition.read(text) == "");
    auto& samples = exposition.samples;
    CHECK(samples["agent_relay_build_info{version=\"0.1.0\"}"] == 1);
    CHECK(samples["agent_relay_uptime_seconds"] == doctest::Approx(1.5));
    CHECK(samples["agent_relay_sessions"] == 2);
    CHECK(samples["agent_relay_events_total"] == 10);
    CHECK(samples["agent_relay_acks_total"] == 9);
    CHECK(samples["agent_relay_redactions_total"] == 1);
    CHECK(samples["agent_relay_queue_depth"] == 1);
    CHECK(samples["agent_relay_journal_bytes"] == 4096);
    CHECK(samples["agent_relay_checkpoint_age_seconds"] == doctest::Approx(0.25));
    CHECK(samples["agent_relay_commits_total"] == 4);
    CHECK(samples["agent_relay_changes_total"] == 12);
    CHECK(samples["agent_relay_fsync_seconds_bucket{le=\"0.000512\"}"] == 3);
    CHECK(samples["agent_relay_fsync_seconds_bucket{le=\"0.002048\"}"] == 4);
    CHECK(samples["agent_relay_fsync_seconds_count"] == 4);
    CHECK(samples["agent_relay_fsync_seconds_sum"] == doctest::Approx(0.0025));
    CHECK(samples["agent_relay_refused_total"] == 6);
    CHECK(samples["agent_relay_failing{part=\"journal\"}"] == 0);
    CHECK(samples["agent_relay_failing{part=\"checkpoint\"}"] == 1);
    CHECK(
        text.find(R"(agent_relay_volume_up{volume="8:1",anchor="/home/a \"b\"\\\nc"} 0)")
        != std::string::npos);
}

TEST_CASE("a status that lacks members is a shorter text") {
    Exposition exposition;
    CHECK(exposition.read(relay::cli::prometheus_text(ordered_json::object())) == "");
    CHECK(exposition.samples.size() == 1);
}

TEST_CASE("the reader of the text format tells a wrong text from a right one") {
    const auto wrong = [](const std::string& text) {
        return !Exposition().read(text).empty();
    };
    const std::string head = "# HELP a_total A.\n# TYPE a_total counter\n";
    CHECK_FALSE(wrong(head + "a_total 1\n"));
    CHECK(wrong(head + "a_total 1"));
    CHECK(wrong(head + "b_total 1\n"));
    CHECK(wrong(head + "a_total x\n"));
    CHECK(wrong(head + "a_total{l=\"1} 1\n"));
    CHECK(wrong(head + "a_total{l=\"\\x\"} 1\n"));
    CHECK(wrong(head + "a_total 1\na_total 2\n"));
    CHECK(wrong("# TYPE a gauge\na 1\n"));
    CHECK(wrong("# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_sum 1\nh_count 2\n"));
}
