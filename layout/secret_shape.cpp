// SPDX-License-Identifier: Apache-2.0
#include "layout/secret_shape.hpp"

#include <array>

namespace relay::layout {

namespace {

constexpr std::string_view alnum = "A-Za-z0-9";
constexpr std::string_view upper = "A-Z0-9";
constexpr std::string_view word = "A-Za-z0-9_";
constexpr std::string_view dashed = "A-Za-z0-9-";
constexpr std::string_view url_base64 = "A-Za-z0-9_-";
constexpr std::string_view dotted_base64 = "A-Za-z0-9_.-";
constexpr std::string_view base64 = "A-Za-z0-9/+=";
constexpr std::string_view token68 = "A-Za-z0-9._~/+=-";

const std::array shapes{
    SecretShape{"anthropic-key", "sk-ant-", url_base64, 20, false},
    SecretShape{"openai-key", "sk-proj-|sk-svcacct-|sk-admin-|sk-None-", url_base64, 20, false},
    SecretShape{"openai-key", "sk-", alnum, 32, false},
    SecretShape{"openrouter-key", "sk-or-v1-", alnum, 32, false},
    SecretShape{"github-token", "ghp_|gho_|ghu_|ghs_|ghr_", alnum, 30, false},
    SecretShape{"github-token", "github_pat_", word, 30, false},
    SecretShape{"gitlab-token", "glpat-|gldt-|glrt-|glptt-|glcbt-", url_base64, 20, false},
    SecretShape{"aws-access-key", "AKIA|ASIA", upper, 16, false},
    SecretShape{
        "aws-secret-key",
        "aws_secret_access_key|AWS_SECRET_ACCESS_KEY|aws_secret_key|AWS_SECRET_KEY|SecretAccessKey|"
        "secretAccessKey|secret_access_key|SECRET_ACCESS_KEY",
        base64,
        40,
        true},
    SecretShape{
        "aws-session-token",
        "aws_session_token|AWS_SESSION_TOKEN|SessionToken|sessionToken",
        base64,
        64,
        true},
    SecretShape{"azure-key", "AccountKey=", base64, 44, false},
    SecretShape{"google-key", "AIza", url_base64, 35, false},
    SecretShape{"google-key", "GOCSPX-", url_base64, 20, false},
    SecretShape{"google-token", "ya29.", dotted_base64, 20, false},
    SecretShape{
        "slack-token", "xoxb-|xoxp-|xoxa-|xoxr-|xoxs-|xoxe-|xoxe.xoxp-|xapp-", dashed, 20, false},
    SecretShape{"slack-webhook", "hooks.slack.com/services/", "A-Za-z0-9/", 20, false},
    SecretShape{"stripe-key", "sk_live_|rk_live_|sk_test_|rk_test_|whsec_", alnum, 16, false},
    SecretShape{"npm-token", "npm_", alnum, 30, false},
    SecretShape{"pypi-token", "pypi-AgEI", url_base64, 40, false},
    SecretShape{"rubygems-key", "rubygems_", alnum, 40, false},
    SecretShape{"docker-token", "dckr_pat_", url_base64, 20, false},
    SecretShape{"huggingface-token", "hf_", alnum, 30, false},
    SecretShape{"groq-key", "gsk_", alnum, 40, false},
    SecretShape{"xai-key", "xai-", alnum, 40, false},
    SecretShape{"perplexity-key", "pplx-", alnum, 40, false},
    SecretShape{"replicate-token", "r8_", alnum, 30, false},
    SecretShape{"nvidia-key", "nvapi-", url_base64, 40, false},
    SecretShape{"databricks-token", "dapi", alnum, 32, false},
    SecretShape{"atlassian-token", "ATATT3", "A-Za-z0-9_=-", 40, false},
    SecretShape{"linear-key", "lin_api_", alnum, 32, false},
    SecretShape{"notion-token", "ntn_", alnum, 40, false},
    SecretShape{"figma-token", "figd_", url_base64, 30, false},
    SecretShape{"grafana-token", "glsa_", word, 32, false},
    SecretShape{"sentry-token", "sntrys_|sntryu_", "A-Za-z0-9_/+=-", 40, false},
    SecretShape{"supabase-token", "sbp_", alnum, 40, false},
    SecretShape{"tailscale-key", "tskey-", dashed, 20, false},
    SecretShape{"sendgrid-key", "SG.", dotted_base64, 40, false},
    SecretShape{"digitalocean-token", "dop_v1_|doo_v1_|dor_v1_", alnum, 40, false},
    SecretShape{"shopify-token", "shpat_|shpca_|shppa_|shpss_", alnum, 32, false},
    SecretShape{"vault-token", "hvs.|hvb.", url_base64, 24, false},
    SecretShape{"age-key", "AGE-SECRET-KEY-1", upper, 40, false},
    SecretShape{"jwt", "eyJhbGciOi|eyJ0eXAiOi|eyJraWQiOi", dotted_base64, 24, false},
    SecretShape{"bearer-token", "Bearer |bearer |BEARER ", token68, 20, false},
    SecretShape{
        "basic-auth",
        "Authorization: Basic |authorization: Basic |authorization: basic ",
        base64,
        8,
        false},
    SecretShape{
        "private-key",
        "-----BEGIN PRIVATE KEY-----|-----BEGIN RSA PRIVATE KEY-----|-----BEGIN EC PRIVATE "
        "KEY-----|-----BEGIN DSA PRIVATE KEY-----|-----BEGIN OPENSSH PRIVATE KEY-----|-----BEGIN "
        "ENCRYPTED PRIVATE KEY-----|-----BEGIN PGP PRIVATE KEY BLOCK-----",
        pem_alphabet,
        32,
        false},
};

}  // namespace

std::span<const SecretShape> secret_shapes() {
    return shapes;
}

}  // namespace relay::layout
