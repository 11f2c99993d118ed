// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "delivery/descriptor.hpp"

namespace relay::cli {

using delivery::Descriptor;

}  // namespace relay::cli
