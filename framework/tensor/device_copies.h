#ifndef TUTTI_FRAMEWORK_TENSOR_DEVICE_COPIES_H_
#define TUTTI_FRAMEWORK_TENSOR_DEVICE_COPIES_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/tensor.h"

namespace tutti {

// Calls `copies` with a function that copies among tensors of the device.
// Copies inside this call if the processor can, else as steps of the device.
// `done` runs once all copies have ended, inside the call or like that of
// StepStream::CallWhenOver(). Until then nobody writes the tensors, and device
// and clock live. Errors: any error of `copies` and of the device;
// UNIMPLEMENTED for a device with its own memory that runs no steps.
void CopyOnDevice(Device& device, Clock& clock,
                  absl::FunctionRef<absl::Status(CopyPiece)> copies,
                  StatusCallback done);

// Fills `into`, a tensor of the device, with the bytes of `pattern`, again and
// again. `pattern` is in host memory, is not empty and may change after this
// call. Otherwise as CopyOnDevice().
void FillOnDevice(Device& device, Clock& clock,
                  absl::Span<const std::byte> pattern, Tensor into,
                  StatusCallback done);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_TENSOR_DEVICE_COPIES_H_
