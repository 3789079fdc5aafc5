#ifndef TUTTI_TOOLS_FILES_NPY_H_
#define TUTTI_TOOLS_FILES_NPY_H_

#include <cstdint>
#include <istream>
#include <string>

#include "absl/status/statusor.h"
#include "tools/files/npy_header.h"
#include "tutti/tensor.h"

namespace tutti {

// Arrays in NumPy's .npy format, versions 1.0, 2.0 and 3.0, in C order and
// little-endian. Nothing a file says is believed before it is compared with the
// size of the file: in particular, memory is allocated only for bytes that are
// there.

// What the file holds, without its elements. Errors, naming the file:
// NOT_FOUND, PERMISSION_DENIED and the like; INVALID_ARGUMENT for what is no
// such file, too short or too long for its shape, or of a kind that Tutti does
// not hold (npy_header.h).
absl::StatusOr<NpyHeader> ReadNpyHeader(const std::string& path);

// The whole array. Errors: also RESOURCE_EXHAUSTED where memory is short.
absl::StatusOr<Tensor> ReadNpy(const std::string& path);

// The same from a stream that holds `size_bytes`; errors name no file.
absl::StatusOr<NpyHeader> ReadNpyHeader(std::istream& in, int64_t size_bytes);
absl::StatusOr<Tensor> ReadNpy(std::istream& in, int64_t size_bytes);

}  // namespace tutti

#endif  // TUTTI_TOOLS_FILES_NPY_H_
