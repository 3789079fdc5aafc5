#ifndef TUTTI_SCHEDULE_SCHEDULE_RUN_H_
#define TUTTI_SCHEDULE_SCHEDULE_RUN_H_

#include <cstddef>

#include "framework/collective_context.h"
#include "framework/status_callback.h"
#include "schedule/bound_schedule.h"

namespace tutti {

// The engine: runs one member's schedule once.
//
// A step starts when those it waits for are complete; nothing ever waits on a
// thread. Steps run on the thread that completes what they waited for, one
// after another however long the chain is; reductions and copies of more than
// kInlineBytes go to the work queue. `done` runs exactly once, when no step is
// under way any more, with the first error if there was one. An error, or the
// end of the execution, keeps further steps from starting.
//
// Where the device does its work in an order of its own (Device::OpenSteps()),
// a step is complete once it is put there, and what members of this process
// send each other is lent with a fence: the whole schedule is put on the
// devices' streams, none of which waits for the host between two steps. What
// goes to another process is copied, to the host or, where the transport reads
// the device (least_device_bytes()), to a landing, and sent when it is there;
// what comes from one goes through the host, or a landing, too. Barriers move
// no bytes of the devices and run on the host.
//
// `bound` and `context` stay valid until `done`.
void RunSchedule(const BoundSchedule& bound, const CollectiveContext& context,
                 StatusCallback done);

// About what a hand-over to another thread costs in bytes reduced meanwhile: 20
// us at 10 GB/s (2 cores, Zen 4, 2026-11).
inline constexpr size_t kInlineBytes = size_t{256} << 10;

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_SCHEDULE_RUN_H_
