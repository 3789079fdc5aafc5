#ifndef TUTTI_FRAMEWORK_TENSOR_DEVICE_COPIES_H_
#define TUTTI_FRAMEWORK_TENSOR_DEVICE_COPIES_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/tensor.h"

namespace tutti {

// Has `copies` copy, by what it is given, among tensors of the device: inside
// this call where the processor may, else as steps of the device. `done` runs
// once all is over, inside the call or as that of StepStream::CallWhenOver();
// until then the tensors stay as they are, and device and clock live. Errors:
// those of `copies` and of the device; UNIMPLEMENTED for one that has a memory
// of its own, and runs no steps.
void CopyOnDevice(Device& device, Clock& clock,
                  absl::FunctionRef<absl::Status(CopyPiece)> copies,
                  StatusCallback done);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_TENSOR_DEVICE_COPIES_H_
