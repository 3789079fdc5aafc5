// Tutti: collectives among the devices of one process or many. The one header
// that an embedder includes; link //:tutti.
//
// A program's way through it: devices (DeviceManager), an Environment of its
// own or a DefaultEnvironment, a manager (CreateLocalExecutorMgr),
// from it a CollectiveExecutor per step, and ExecuteAsync() per member and
// collective; Prepare() for one that runs every step on the same buffers.
// README.md has a complete program.

#ifndef TUTTI_TUTTI_H_
#define TUTTI_TUTTI_H_

#include "framework/await.h"                      // IWYU pragma: export
#include "framework/blocking_counter.h"           // IWYU pragma: export
#include "framework/cancellation.h"               // IWYU pragma: export
#include "framework/collective_executor.h"        // IWYU pragma: export
#include "framework/collective_executor_mgr.h"    // IWYU pragma: export
#include "framework/collective_implementation.h"  // IWYU pragma: export
#include "framework/collective_request.h"         // IWYU pragma: export
#include "framework/cpu_device.h"                 // IWYU pragma: export
#include "framework/device_manager.h"             // IWYU pragma: export
#include "framework/environment.h"                // IWYU pragma: export
#include "framework/prepared_collective.h"        // IWYU pragma: export
#include "framework/registry.h"                   // IWYU pragma: export
#include "framework/segment_list.h"               // IWYU pragma: export
#include "framework/tensor.h"                     // IWYU pragma: export
#include "resolvers/local_group.h"                // IWYU pragma: export
#include "resolvers/local_runtime.h"              // IWYU pragma: export

#endif  // TUTTI_TUTTI_H_
