#ifndef TUTTI_FRAMEWORK_COLLECTIVE_GIVEN_ROWS_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_GIVEN_ROWS_H_

#include <cstdint>

#include "framework/base/digest.h"
#include "tutti/params.h"

namespace tutti {

// Digest of `instance.rows` if members give them, else 0. The same in all
// processes.
inline uint64_t DigestOfGivenRows(const CollInstanceParams& instance) {
  return instance.rows_are_given ? DigestOf(instance.rows) : 0;
}

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_GIVEN_ROWS_H_
