// SPDX-License-Identifier: Apache-2.0
// Driveline as a peer: measures the cost of its C++ SDK in addition to its core.
#include "driveline_link.hpp"

int main(int argc, char** argv) { return peers::run_peer(*peers_driveline(), argc, argv); }
