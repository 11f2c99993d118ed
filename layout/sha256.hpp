// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace relay::layout {

// A running SHA-256. Move-only; one thread at a time.
class Sha256 {
public:
    Sha256();
    void update(std::string_view bytes);

    // Lower-case hex of everything so far; the hash may go on afterwards.
    [[nodiscard]] std::string hex() const;

private:
    struct Free {
        void operator()(evp_md_ctx_st* context) const;
    };
    std::unique_ptr<evp_md_ctx_st, Free> context_;
};

[[nodiscard]] std::string sha256_hex(std::string_view bytes);

}  // namespace relay::layout
