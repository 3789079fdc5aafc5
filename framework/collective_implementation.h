#ifndef TUTTI_FRAMEWORK_COLLECTIVE_IMPLEMENTATION_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_IMPLEMENTATION_H_

namespace tutti {
class CollectiveImplementationInterface {
 public:
  virtual ~CollectiveImplementationInterface() = default;
};
}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_IMPLEMENTATION_H_
