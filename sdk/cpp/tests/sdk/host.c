// SPDX-License-Identifier: Apache-2.0
// driveline-host as a program of this build.
#include <driveline/driveline.h>

int main(int argc, char** argv) { return dl_host_main(argc, (const char* const*)argv); }
