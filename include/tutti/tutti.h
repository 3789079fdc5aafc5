#ifndef TUTTI_TUTTI_H_
#define TUTTI_TUTTI_H_

// Core of Tutti: collectives among the devices of one process or many.
// Includes all that a program with one process needs; link //:tutti. A
// program makes devices (DeviceManager), an Environment of its own or a
// DefaultEnvironment, and a manager (CreateLocalExecutorMgr). The manager
// gives a CollectiveExecutor per step. Each member calls ExecuteAsync() per
// collective, or Prepare() once for a collective that runs every step on the
// same buffers. README.md has a complete program.

#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/local_runtime.h"
#include "tutti/tensor.h"

#endif  // TUTTI_TUTTI_H_
