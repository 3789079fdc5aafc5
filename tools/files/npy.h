#ifndef TUTTI_TOOLS_FILES_NPY_H_
#define TUTTI_TOOLS_FILES_NPY_H_

#include <cstdint>
#include <istream>
#include <string>

#include "absl/status/statusor.h"
#include "tools/files/npy_header.h"
#include "tutti/tensor.h"

namespace tutti {

// Reads arrays in NumPy's .npy format, versions 1.0, 2.0 and 3.0. Arrays in
// Fortran order or with big-endian elements become tensors in C order with this
// machine's elements, and elements that Tutti has no dtype for become bytes
// (npy_header.h). Checks every size that a file states against the file's
// size before using it: memory is allocated only for bytes that exist.

// Reads the header. Errors, naming the file: NOT_FOUND, PERMISSION_DENIED and
// the like; INVALID_ARGUMENT if the file is not a .npy file, is too short or
// too long for its shape, or holds a kind of array that Tutti does not support
// (npy_header.h).
absl::StatusOr<NpyHeader> ReadNpyHeader(const std::string& path);

// Reads the whole array. Errors: also RESOURCE_EXHAUSTED if memory is short.
absl::StatusOr<Tensor> ReadNpy(const std::string& path);

// Reads from a stream that holds `size_bytes`; errors name no file.
absl::StatusOr<NpyHeader> ReadNpyHeader(std::istream& in, int64_t size_bytes);
absl::StatusOr<Tensor> ReadNpy(std::istream& in, int64_t size_bytes);

}  // namespace tutti

#endif  // TUTTI_TOOLS_FILES_NPY_H_
