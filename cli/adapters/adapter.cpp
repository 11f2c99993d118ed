// SPDX-License-Identifier: Apache-2.0
#include "cli/adapters/adapter.hpp"

#include "cli/adapters/plain.hpp"

namespace relay::cli {

std::unique_ptr<Adapter>
make_adapter(std::string_view format, EventSink& sink, const AdapterSettings& settings) {
    if (format == "plain") {
        return std::make_unique<PlainAdapter>(sink, settings);
    }
    return nullptr;
}

}  // namespace relay::cli
