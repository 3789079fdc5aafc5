#ifndef TUTTI_FRAMEWORK_BASE_IF_ALIVE_H_
#define TUTTI_FRAMEWORK_BASE_IF_ALIVE_H_

#include <functional>
#include <memory>
#include <utility>

namespace tutti {

// Returns a callback that calls `method` of the object: with `bound`, then with
// the callback's own arguments. The callback keeps the object while it runs,
// and does nothing once the object is gone.
template <typename T, typename Method, typename... Bound>
auto IfAlive(std::weak_ptr<T> object, Method method, Bound... bound) {
  return [object = std::move(object), method = std::move(method),
          ... bound = std::move(bound)](auto&&... args) mutable {
    if (const auto alive = object.lock()) {
      std::invoke(method, *alive, bound...,
                  std::forward<decltype(args)>(args)...);
    }
  };
}

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_IF_ALIVE_H_
