#ifndef TUTTI_TOOLS_FILES_NPY_HEADER_H_
#define TUTTI_TOOLS_FILES_NPY_HEADER_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tutti/tensor.h"

namespace tutti {

// A .npy file starts with a preamble: "\x93NUMPY", a version of two bytes, the
// length of the header (two bytes in version 1.0, four in 2.0 and 3.0), and the
// header itself, a Python dictionary:
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
// The elements follow and end the file.
//
// Elements lie in C order or in Fortran order, and have little-endian or
// big-endian bytes. Files are written in C order and little-endian.
//
// bfloat16. NumPy has no such dtype. The package ml_dtypes, which brings it to
// NumPy for JAX and TensorFlow, saves it under the descr '<V2', and NumPy makes
// '|V2' of that when it loads and saves such a file. Both are read as bfloat16,
// and '<V2' is written: numpy.load(f).view(ml_dtypes.bfloat16) gives it back.
//
// Elements of no dtype of Tutti (dates, texts, structures, long doubles, the
// floats of 8 bits, whose descr '|V1' does not say which kind they are) are
// read as bytes: uint8, with the bytes of an element as one more dimension,
// which is the last. They are written under the descr that they were read
// under, and their bytes keep the file's order.

struct NpyHeader {
  DType dtype = DType::kFloat32;
  TensorShape shape;  // Of the tensor.

  // Python text of the descr of elements that are read as bytes. Empty if they
  // are of `dtype`.
  std::string descr;

  // The file's first index changes fastest.
  bool fortran_order = false;

  // Size of the words whose bytes are in big-endian order; 0: none are.
  size_t big_endian_bytes = 0;
};

// Error of a file that is no .npy file, or none that can be read.
template <typename... Args>
absl::Status InvalidNpy(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

// Shape of the array: that of the tensor, without the bytes of an element.
TensorShape ArrayShape(const NpyHeader& header);

// Prints "float32[3,4]", or "\"<M8[s]\"[3,4]" for elements read as bytes.
std::string ToString(const NpyHeader& header);

// Reads the text of a header. Stricter than Python: wants exactly the three
// keys, each once, and only spaces around the dictionary. Errors:
// INVALID_ARGUMENT with the found and the wanted text for everything else, and
// for arrays of Python objects.
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view text);

// The preamble, version 1.0, that NumPy writes for this array in C order and
// little-endian.
std::string NpyPreamble(const NpyHeader& header);

// Limit of NumPy.
inline constexpr int kMaxNpyDims = 64;
inline constexpr size_t kMaxNpyHeaderBytes = 65536;

}  // namespace tutti

#endif  // TUTTI_TOOLS_FILES_NPY_HEADER_H_
