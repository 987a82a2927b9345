// SPDX-License-Identifier: Apache-2.0
// Driveline through its C++ SDK, as a middleware of the harness.
#pragma once

#include "link.hpp"

/// Exported function of `driveline_link.so`, for edges of chains.
extern "C" peers::Middleware* peers_driveline();
