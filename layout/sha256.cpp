// SPDX-License-Identifier: Apache-2.0
#include "layout/sha256.hpp"

#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <cstdlib>

namespace relay::layout {

namespace {

using Digest = std::array<unsigned char, 32>;

// The library fails here only when it cannot allocate or has no SHA-256 at all; no record can be
// sealed then.
void require(bool succeeded) {
    if (!succeeded) {
        std::abort();
    }
}

// Fetched once for the life of the process: OpenSSL 3 takes longer to find the algorithm than to
// hash a small turn.
const EVP_MD* algorithm() {
    static const EVP_MD* const fetched = EVP_MD_fetch(nullptr, "SHA256", nullptr);
    require(fetched != nullptr);
    return fetched;
}

std::string hex_of(const Digest& digest) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    text.reserve(2 * digest.size());
    for (const unsigned char byte : digest) {
        text += digits[byte >> 4];
        text += digits[byte & 15];
    }
    return text;
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const {
    EVP_MD_CTX_free(context);
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
    require(context_ != nullptr);
    require(EVP_DigestInit_ex(context_.get(), algorithm(), nullptr) == 1);
}

void Sha256::update(std::string_view bytes) {
    require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex() const {
    const std::unique_ptr<evp_md_ctx_st, Free> copy{EVP_MD_CTX_new()};
    require(copy != nullptr && EVP_MD_CTX_copy_ex(copy.get(), context_.get()) == 1);
    Digest digest{};
    require(EVP_DigestFinal_ex(copy.get(), digest.data(), nullptr) == 1);
    return hex_of(digest);
}

std::string sha256_hex(std::string_view bytes) {
    Digest digest{};
    require(
        EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, algorithm(), nullptr) == 1);
    return hex_of(digest);
}

}  // namespace relay::layout
