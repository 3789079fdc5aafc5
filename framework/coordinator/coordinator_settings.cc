#include "framework/coordinator/coordinator_settings.h"

#include "absl/strings/str_cat.h"
#include "framework/coordinator/request_check.h"
#include "framework/coordinator/tensor_request.h"

namespace tutti {

std::string StalledTensor::ToString() const {
  return absl::StrCat("tensor ", Quoted(name), " has waited for ",
                      absl::ToInt64Milliseconds(waited),
                      " ms: ranks that have asked for it: ", RanksText(present),
                      "; ranks that have not: ", RanksText(missing));
}

}  // namespace tutti
