// Fuzzes the header of a .npy file.

#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"
#include "tools/files/npy_header.h"

namespace tutti {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kFixedBytes = 10;  // Size of the preamble before the header.
  const auto header = ParseNpyHeader(
      absl::string_view(reinterpret_cast<const char*>(data), size));
  if (!header.ok()) {
    Promise(absl::IsInvalidArgument(header.status()),
            "what is no header is INVALID_ARGUMENT");
    return 0;
  }
  Promise(IsValid(header->dtype), "a header has a dtype");
  Promise(ArrayShape(*header).num_dims() <= kMaxNpyDims,
          "dimensions are bounded");
  const std::string preamble = NpyPreamble(*header);
  const auto again = ParseNpyHeader(preamble.substr(kFixedBytes));
  Promise(again.ok() && again->dtype == header->dtype &&
              again->shape == header->shape && again->descr == header->descr,
          "a header that was read is written so that it is read the same");
  return 0;
}

std::vector<std::string> FuzzSeeds() {
  return {
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n",
      "{'descr': '|b1', 'fortran_order': True, 'shape': (9223372036854775807,)"
      ", }",
      "{'descr': '>f8', 'fortran_order': True, 'shape': (3, 4), }",
      "{\"shape\": (), \"descr\": '<V2', \"fortran_order\": False}",
      "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3L,)}",
      "{'descr': [(('t', 'a'), '<f4', (2, 3)), ('b', [('', '|V4'), ('c', "
      "'<U3')])], 'fortran_order': True, 'shape': (3, 4)}",
      "{'descr': '>M8[25s]', 'fortran_order': False, 'shape': ()}",
  };
}

}  // namespace tutti
