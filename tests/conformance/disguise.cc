#include "tests/conformance/disguise.h"

namespace tutti::conformance {
namespace {

REGISTER_COLLECTIVE(Disguise,
                    Implemented<Disguise>({.summary = "for tests",
                                           .collectives = {
                                               CollectiveType::kAllReduce}}));

}  // namespace
}  // namespace tutti::conformance
