#ifndef TUTTI_TUTTI_H_
#define TUTTI_TUTTI_H_

// Core of Tutti: collectives among the devices of one process or many. Includes
// everything for a program with one process; link //:tutti. A program makes
// devices (DeviceManager), an Environment or a DefaultEnvironment, and a
// manager (CreateLocalExecutorMgr). The manager makes a CollectiveExecutor per
// step. Each member calls ExecuteAsync() per collective. For a collective that
// runs every step on the same buffers, it calls Prepare() once. README.md has a
// complete program.

#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/local_runtime.h"
#include "tutti/tensor.h"

#endif  // TUTTI_TUTTI_H_
