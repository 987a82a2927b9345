// SPDX-License-Identifier: Apache-2.0
// Driveline as the harness sees it, through the C++ SDK.
#pragma once

#include "link.hpp"

/// What `driveline_link.so` exports, for edges of chains.
extern "C" peers::Middleware* peers_driveline();
