// SPDX-License-Identifier: Apache-2.0
#include "layout/event_redaction.hpp"
#include "layout/redactor.hpp"
#include "layout/secret_shape.hpp"
#include "tests/support/random.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <set>
#include <string>
#include <vector>

namespace {

using relay::layout::Redactor;
using Rest = Redactor::Rest;
using Verdict = Redactor::Verdict;

const std::string alnum36 = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
const std::string upper16 = "ABCDEFGH12345678";
const std::string base64_40 = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzKEY";

std::shared_ptr<const Redactor> make(const std::vector<std::string>& rules = {}) {
    auto made = Redactor::create(rules);
    REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().context));
    return made.value();
}

std::string redacted(const Redactor& redactor, std::string text) {
    std::int64_t count = 0;
    static_cast<void>(redactor.redact(text, count));
    return text;
}

// A stream as the recorder writes it: pieces wait until they are decided.
class Stream {
public:
    explicit Stream(const Redactor& redactor) : redactor_(redactor) {}

    void add(std::string piece) {
        held_.push_back(std::move(piece));
        settle(Rest::unknown);
    }
    void settle(Rest rest) {
        while (!held_.empty()) {
            std::string after;
            for (std::size_t next = 1; next < held_.size(); ++next) {
                after += held_[next];
            }
            std::string out;
            const Verdict verdict =
                redactor_.judge({written, held_.front(), after, rest}, out, count);
            if (verdict == Verdict::undecided) {
                return;
            }
            written += verdict == Verdict::changed ? out : held_.front();
            held_.erase(held_.begin());
        }
    }
    [[nodiscard]] bool holds() const { return !held_.empty(); }

    std::string written;
    std::int64_t count = 0;

private:
    const Redactor& redactor_;
    std::vector<std::string> held_;
};

}  // namespace

TEST_CASE("the well-known shapes of keys are hidden behind their public heads") {
    const auto redactor = make();
    std::set<std::string_view> known;
    const auto hides = [&](const std::string& head, const std::string& body, const char* rule) {
        CAPTURE(head);
        known.insert(rule);
        CHECK(
            redacted(*redactor, "key: " + head + body + " end")
            == "key: " + head + "[REDACTED:" + rule + "] end");
    };
    hides("sk-", alnum36 + alnum36, "openai-key");
    hides("sk-proj-", "abc_DEF-" + alnum36, "openai-key");
    hides("sk-ant-", "api03-" + alnum36 + "-_AA", "anthropic-key");
    hides("ghp_", alnum36, "github-token");
    hides("gho_", alnum36, "github-token");
    hides("github_pat_", alnum36 + "_" + alnum36, "github-token");
    hides("glpat-", alnum36, "gitlab-token");
    hides("AKIA", upper16, "aws-access-key");
    hides("ASIA", upper16, "aws-access-key");
    hides("aws_secret_access_key = ", base64_40, "aws-secret-key");
    hides("AWS_SECRET_ACCESS_KEY=", base64_40, "aws-secret-key");
    hides(R"("SecretAccessKey": ")", base64_40, "aws-secret-key");
    hides("AIza", alnum36, "google-key");
    hides("xoxb-", "123456789012-" + alnum36, "slack-token");
    hides("sk_live_", alnum36, "stripe-key");
    hides("npm_", alnum36, "npm-token");
    hides("pypi-AgEI", alnum36 + alnum36, "pypi-token");
    hides("eyJhbGciOi", "JIUzI1NiJ9." + alnum36 + "." + alnum36, "jwt");
    hides("Authorization: Bearer ", alnum36, "bearer-token");
    hides("Authorization: Basic ", "dXNlcjpwYXNz", "basic-auth");
    hides("sk-or-v1-", alnum36, "openrouter-key");
    hides("AWS_SESSION_TOKEN=", base64_40 + base64_40, "aws-session-token");
    hides("AccountKey=", base64_40 + "abc==", "azure-key");
    hides("GOCSPX-", alnum36, "google-key");
    hides("ya29.", alnum36, "google-token");
    hides("https://hooks.slack.com/services/", "T0000000/B0000000/" + alnum36, "slack-webhook");
    hides("rubygems_", alnum36 + alnum36, "rubygems-key");
    hides("dckr_pat_", alnum36, "docker-token");
    hides("hf_", alnum36, "huggingface-token");
    hides("gsk_", alnum36 + alnum36, "groq-key");
    hides("xai-", alnum36 + alnum36, "xai-key");
    hides("pplx-", alnum36 + alnum36, "perplexity-key");
    hides("r8_", alnum36, "replicate-token");
    hides("nvapi-", alnum36 + "-_" + alnum36, "nvidia-key");
    hides("dapi", alnum36, "databricks-token");
    hides("ATATT3", alnum36 + "-_" + alnum36 + "=1A2B3C4D", "atlassian-token");
    hides("lin_api_", alnum36, "linear-key");
    hides("ntn_", alnum36 + alnum36, "notion-token");
    hides("figd_", alnum36, "figma-token");
    hides("glsa_", alnum36 + "_1a2b3c4d", "grafana-token");
    hides("sntrys_", alnum36 + alnum36, "sentry-token");
    hides("sbp_", alnum36 + alnum36, "supabase-token");
    hides("tskey-", "auth-" + alnum36, "tailscale-key");
    hides("SG.", alnum36 + "." + alnum36, "sendgrid-key");
    hides("dop_v1_", alnum36 + alnum36, "digitalocean-token");
    hides("shpat_", alnum36, "shopify-token");
    hides("hvs.", alnum36, "vault-token");
    hides("AGE-SECRET-KEY-1", upper16 + upper16 + upper16, "age-key");
    // The one with another form has a test of its own.
    known.insert("private-key");
    for (const relay::layout::SecretShape& shape : relay::layout::secret_shapes()) {
        CHECK_MESSAGE(known.contains(shape.name), shape.name);
    }
}

TEST_CASE("a private key is hidden to its end in a string literal and in a patch too") {
    const auto redactor = make();
    const std::string begin = "-----BEGIN RSA PRIVATE KEY-----";
    const std::string end = "-----END RSA PRIVATE KEY-----";
    const std::string hidden = begin + "[REDACTED:private-key]" + end;
    const std::string line = "MIIEowIBAAKCAQEA" + alnum36 + "+/==";
    CHECK(redacted(*redactor, begin + "\n" + line + "\r\n" + line + "\n" + end) == hidden);
    CHECK(redacted(*redactor, begin + "\\n" + line + "\\n" + line + "\\n" + end) == hidden);
    CHECK(redacted(*redactor, begin + "\\\\n" + line + "\\\\n" + end) == hidden);
    CHECK(
        redacted(*redactor, "-" + begin + "\n-" + line + "\n-" + line + "\n" + end)
        == "-" + hidden);
    CHECK(
        redacted(
            *redactor,
            begin + "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00FF\n\n" + line + "\n" + end)
        == hidden);
}

TEST_CASE("words counts and short things are no secrets") {
    const auto redactor = make();
    for (const std::string text :
         {R"({"token_count":12345678901234567890123456789012345678901234567890})",
          R"({"max_tokens":4096,"input_tokens":123,"cache_read_input_tokens":456})",
          "tokens_used=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
          "the risk-assessmentaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
          "desk-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
          "sk-learn-based-pipelines-with-many-many-words-in-them",
          "sk-short ghp_short AKIASHORT Bearer of bad news",
          "npm_config_registry npm_lifecycle_event hf_model",
          "dapi_client dapilinux figd_ sbp_start ntn_0 tskey-auth lin_api_url",
          "aws_secret_access_key is not set at all, you should set it to something",
          "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG\n",
          "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}) {
        CAPTURE(text);
        CHECK(redacted(*redactor, text) == text);
    }
}

TEST_CASE("an escape a colour or a percent sign before a key does not hide it") {
    const auto redactor = make();
    const std::string hidden = "ghp_[REDACTED:github-token]";
    for (const std::string before :
         {"\\n",
          "\\\\t",
          "\x1b[31m",
          "\x1b[1;38:5:9m",
          "\\u001b[31m",
          "\\033[0m",
          "%20",
          "_",
          "\""}) {
        CAPTURE(before);
        CHECK(redacted(*redactor, "x " + before + "ghp_" + alnum36) == "x " + before + hidden);
    }
    CHECK(redacted(*redactor, "xghp_" + alnum36) == "xghp_" + alnum36);
}

TEST_CASE("a key split over two pieces never reaches the file") {
    const auto redactor = make();
    Stream stream(*redactor);
    stream.add("the key is ghp_");
    CHECK(stream.written == "the key is ghp_");  // no secret so far: nothing waits
    stream.add(alnum36.substr(0, 10));
    CHECK(stream.holds());
    stream.add(alnum36.substr(10));
    CHECK_FALSE(stream.holds());
    CHECK(stream.written == "the key is ghp_[REDACTED:github-token]");
    stream.add("MORE and");
    CHECK(stream.written == "the key is ghp_[REDACTED:github-token] and");
    CHECK(stream.count == 1);
}

TEST_CASE("text that ends in no candidate never waits") {
    const auto redactor = make();
    Stream stream(*redactor);
    for (const std::string piece :
         {"A", "s", "sk", "sk-", " Bearer ", "e", "eyJ", "-", "-----BEGIN ", "gh", "AKI", "ghp_"}) {
        CAPTURE(piece);
        stream.add(" ");
        stream.add(piece);
        CHECK_FALSE(stream.holds());
    }
}

TEST_CASE("what has waited long enough is hidden if it is likely and what completes it later is "
          "hidden") {
    const auto redactor = make();
    SUBCASE("less than half") {
        Stream stream(*redactor);
        stream.add("ghp_a1B2c3");
        stream.settle(Rest::waited);
        CHECK(stream.written == "ghp_a1B2c3");
        stream.add(alnum36.substr(6, 20));
        CHECK(stream.holds());
        stream.add(alnum36.substr(26) + " end");
        CHECK(stream.written == "ghp_a1B2c3[REDACTED:github-token] end");
    }
    SUBCASE("more than half") {
        Stream stream(*redactor);
        stream.add("ghp_" + alnum36.substr(0, 20));
        stream.settle(Rest::waited);
        CHECK(stream.written == "ghp_[REDACTED:github-token]");
        stream.add(alnum36.substr(20) + " end");
        CHECK(stream.written == "ghp_[REDACTED:github-token] end");
    }
    SUBCASE("the end of the text") {
        Stream stream(*redactor);
        stream.add("ghp_" + alnum36.substr(0, 20));
        stream.settle(Rest::none);
        CHECK(stream.written == "ghp_" + alnum36.substr(0, 20));
    }
}

TEST_CASE("the end of the file is all that a later piece needs to know") {
    const auto redactor = make();
    for (const std::string before : {"x ghp_", "x ghp_[REDACTED:github-token]"}) {
        CAPTURE(before);
        std::string out;
        std::int64_t count = 0;
        const std::string piece = alnum36 + " y";
        CHECK(redactor->judge({before, piece, {}, Rest::unknown}, out, count) == Verdict::changed);
        CHECK(before + out == "x ghp_[REDACTED:github-token] y");
    }
}

TEST_CASE("any cut of a text gives the same redacted text and redacting it again changes nothing") {
    const auto redactor = make({"acme=acme_[0-9a-f]{32}", "corp=corp-(live|test)-[a-z]{8,16}"});
    relay::tests::Random random(42);
    std::vector<std::string> heads{
        "acme_", "corp-live-", "corp-test-", "corp-", "acme_", "corp-live-"};
    for (const auto& shape : relay::layout::secret_shapes()) {
        for (std::string_view rest = shape.heads; !rest.empty();) {
            const std::string_view head = rest.substr(0, rest.find('|'));
            rest.remove_prefix(std::min(rest.size(), head.size() + 1));
            heads.emplace_back(head);
        }
    }
    const std::vector<std::string> glue{
        " ",
        "\n",
        "\\n",
        "-",
        "--",
        "\"",
        "=",
        ": \"",
        ".",
        "a",
        "/",
        "\\/",
        "\\",
        "é",
        "]",
        "[REDACTED:github-token]",
        "ghp_[REDACTED:github-token]",
        "0123456789abcdef",
        "-----END RSA PRIVATE KEY-----"};
    const std::string letters = "abcdef0123456789ABCDEF";
    for (int round = 0; round < 4000; ++round) {
        std::string text;
        const auto parts = 1 + random.below(8);
        for (std::uint64_t part = 0; part < parts; ++part) {
            const std::uint64_t kinds = std::vector<std::uint64_t>{6, 16, 22}[random.below(3)];
            text += glue[random.below(glue.size())];
            if (random.below(3) != 0) {
                text += heads[random.below(heads.size())];
            }
            for (auto left = random.below(3) == 0 ? random.below(20) : random.below(90); left > 0;
                 --left) {
                text += letters[random.below(kinds)];
            }
        }
        const std::string whole = redacted(*redactor, text);
        const std::string again = redacted(*redactor, whole);
        CAPTURE(text);
        CHECK(again == whole);
        for (int cut = 0; cut < 4; ++cut) {
            Stream stream(*redactor);
            const auto piece_max = cut == 0 ? 1 : 1 + random.below(30);
            for (std::size_t at = 0; at < text.size();) {
                const std::size_t bytes = cut == 0 ? 1 : random.below(piece_max + 1);
                stream.add(text.substr(at, bytes));
                at += bytes;
            }
            stream.settle(Rest::none);
            CHECK(stream.written == whole);
        }
    }
}

TEST_CASE("with pauses and restarts anywhere no whole body reaches the file") {
    const auto redactor = make();
    relay::tests::Random random(7);
    for (int round = 0; round < 3000; ++round) {
        const std::string text = "one ghp_" + alnum36 + " two AKIA" + upper16 + " three sk-ant-"
                                 + alnum36 + alnum36 + "\n";
        Stream stream(*redactor);
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t bytes = 1 + random.below(24);
            stream.add(text.substr(at, bytes));
            at += bytes;
            if (random.below(3) == 0) {
                stream.settle(Rest::waited);
            }
        }
        stream.settle(Rest::waited);
        CAPTURE(stream.written);
        // Less than half of the shortest possible body, from its beginning on, and nothing after it.
        CHECK(stream.written.find(alnum36.substr(0, 15)) == std::string::npos);
        CHECK(stream.written.find(alnum36.substr(15, 8)) == std::string::npos);
        CHECK(stream.written.find(alnum36.substr(28)) == std::string::npos);
        CHECK(stream.written.find(upper16.substr(0, 8)) == std::string::npos);
        CHECK(stream.written.find(upper16.substr(8, 5)) == std::string::npos);
        CHECK(stream.count == 3);
    }
}

TEST_CASE("a rule of one's own hides what follows its fixed beginning") {
    const auto redactor = make({"acme=acme_[0-9a-f]{8}"});
    CHECK(redacted(*redactor, "acme_01234567!") == "acme_[REDACTED:acme]!");
    CHECK(redacted(*redactor, "acme_0123456!") == "acme_0123456!");
    Stream stream(*redactor);
    stream.add("acme_0123");
    CHECK(stream.holds());
    stream.add("4567\n");
    CHECK(stream.written == "acme_[REDACTED:acme]\n");
}

TEST_CASE("JSON stays JSON whatever a rule matches") {
    const auto redactor = make({"greedy=pass:.*"});
    std::string json = R"({"a":"pass: secret","b":"x","c":"-----BEGIN PRIVATE KEY-----\nMIIE)"
                       + alnum36 + R"(\n\"","d":"ghp_)" + alnum36 + R"(","e":"Bearer )" + alnum36
                       + R"(\/\"x"})";
    std::int64_t count = 0;
    CHECK(redactor->redact_json(json, count));
    const auto parsed = nlohmann::json::parse(json, nullptr, false);
    REQUIRE_FALSE(parsed.is_discarded());
    CHECK(parsed["a"] == "pass[REDACTED:greedy]");
    CHECK(parsed["b"] == "x");
    CHECK(parsed["c"] == "-----BEGIN PRIVATE KEY-----[REDACTED:private-key]\"");
    CHECK(parsed["d"] == "ghp_[REDACTED:github-token]");
    CHECK(parsed["e"] == "Bearer [REDACTED:bearer-token]\"x");
    CHECK(count == 4);
}

TEST_CASE("a wrong rule is refused with a sentence and a built-in one can be left out") {
    const auto refused = [](const std::string& rule) {
        const auto made = Redactor::create(std::vector<std::string>{rule});
        return made.ok() ? std::string() : made.error().context;
    };
    CHECK(refused("nothing").find("is no name=pattern") != std::string::npos);
    CHECK(refused("Upper=abcd").find("is no name=pattern") != std::string::npos);
    CHECK(refused("x=abc(").find("regular expression") != std::string::npos);
    CHECK(refused("x=[a-z]+").find("three fixed characters") != std::string::npos);
    CHECK(refused("!nothing").find("not built in") != std::string::npos);
    const std::string jwt = "eyJhbGciOi" + alnum36;
    CHECK(redacted(*make({"!jwt"}), jwt) == jwt);
    CHECK(redacted(*make(), jwt) != jwt);
}

TEST_CASE("every text of an event is looked at and an event without secrets is not copied") {
    const auto redactor = make();
    relay::layout::EventDecoder decoder;
    const std::string key = "ghp_" + alnum36;
    const auto count = [&](std::string line) {
        for (std::size_t at; (at = line.find("KEY")) != std::string::npos;) {
            line.replace(at, 3, key);
        }
        auto event = decoder.decode(line);
        REQUIRE(std::holds_alternative<relay::layout::Event>(event));
        const auto hidden =
            relay::layout::redact_event(*redactor, std::get<relay::layout::Event>(event));
        return hidden ? hidden->count : 0;
    };
    const std::string head = R"("session":"01ARZ3NDEKTSV4RRFFQ69G5FAV")";
    CHECK(
        count(
            R"({"type":"session.start","agent":"a KEY","cwd":"/","command":["x","KEY"],"name":"KEY",)"
            R"("model":"KEY","user":"KEY","labels":["KEY"],"extra":{"k":"KEY"}})")
        == 7);
    CHECK(count(R"({"type":"turn.start",)" + head + R"(,"prompt":"KEY","model":"KEY"})") == 2);
    CHECK(
        count(
            R"({"type":"turn.tool",)" + head
            + R"(,"tool_id":"1","name":"n","status":"ok","summary":"KEY","input":{"a":"KEY"},"output":["KEY"]})")
        == 3);
    CHECK(count(R"({"type":"turn.note",)" + head + R"(,"kind":"decision","payload":"KEY"})") == 1);
    CHECK(
        count(
            R"({"type":"turn.end",)" + head
            + R"(,"stop_reason":"KEY","files":[{"path":"KEY"}],"validation":{"a":"KEY"},"diff":"KEY",)"
              R"("next_task":"KEY","limit":{"a":"KEY"},"error":"KEY","extra":{"a":"KEY"}})")
        == 8);
    CHECK(
        count(
            R"({"type":"session.update",)" + head
            + R"(,"name":"KEY","model":"KEY","stage":"KEY","labels":["KEY"],"extra":{"a":"KEY"}})")
        == 5);
    CHECK(
        count(
            R"({"type":"session.checkpoint",)" + head
            + R"(,"reason":"KEY","decisions":[{"summary":"KEY"}],"blockers":[{"summary":"KEY"}],)"
              R"("validation_state":{"a":"KEY"},"next_task":"KEY","limit":{"a":"KEY"}})")
        == 6);
    CHECK(count(R"({"type":"session.end",)" + head + R"(,"error":"KEY"})") == 1);
    CHECK(
        count(
            R"({"type":"session.attachment",)" + head
            + R"(,"name":"log.txt","data":"Z2hwX2ExQjJjM0Q0ZTVGNmc3SDhpOUowazFMMm0zTjRvNVA2cTdSOA=="})")
        == 1);
    CHECK(count(R"({"type":"turn.start",)" + head + R"(,"prompt":"nothing"})") == 0);
}
