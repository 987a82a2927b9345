// SPDX-License-Identifier: Apache-2.0
// Each macro adds one mistake to the program. Without a macro, it compiles.
#include <cstdint>
#include <string>

#include "driveline/plain.hpp"

namespace good {
struct Point {
    float x;
    float y;
};
DRIVELINE_PLAIN(Point, "test/Point", x, y);
struct Cloud {
    std::uint64_t time_ns;
};
DRIVELINE_PLAIN_WITH_TAIL(Cloud, "test/Cloud", Point, points, time_ns);
}  // namespace good

namespace bad {
enum class Colour : std::uint32_t { red };
#if defined(BOOL_FIELD)
struct T {
    bool b;
};
DRIVELINE_PLAIN(T, "test/T", b);
#elif defined(ENUM_FIELD)
struct T {
    Colour c;
};
DRIVELINE_PLAIN(T, "test/T", c);
#elif defined(POINTER_FIELD)
struct T {
    char* p;
};
DRIVELINE_PLAIN(T, "test/T", p);
#elif defined(WCHAR_FIELD)
struct T {
    wchar_t w[4];
};
DRIVELINE_PLAIN(T, "test/T", w);
#elif defined(STRING_FIELD)
struct T {
    std::string s;
};
DRIVELINE_PLAIN(T, "test/T", s);
#elif defined(PADDING)
struct T {
    std::uint32_t a;
    double b;
};
DRIVELINE_PLAIN(T, "test/T", a, b);
#elif defined(PADDING_AT_END)
struct T {
    double a;
    std::uint32_t b;
};
DRIVELINE_PLAIN(T, "test/T", a, b);
#elif defined(MISSING_FIELD)
struct T {
    float a;
    float b;
};
DRIVELINE_PLAIN(T, "test/T", a);
#elif defined(WRONG_ORDER)
struct T {
    float a;
    float b;
};
DRIVELINE_PLAIN(T, "test/T", b, a);
#elif defined(VIRTUAL_FUNCTION)
struct T {
    virtual void f();
    float a;
};
DRIVELINE_PLAIN(T, "test/T", a);
#elif defined(FIELDS_IN_BASE)
struct Base {
    float a;
};
struct T : Base {
    float b;
};
DRIVELINE_PLAIN(T, "test/T", a, b);
#elif defined(BAD_NAME)
struct T {
    float a;
};
DRIVELINE_PLAIN(T, "T", a);
#elif defined(TAIL_IN_FIELD)
struct T {
    good::Cloud a;
};
DRIVELINE_PLAIN(T, "test/T", a);
#elif defined(TAIL_OF_TAIL)
struct T {
    float a;
};
DRIVELINE_PLAIN_WITH_TAIL(T, "test/T", good::Cloud, clouds, a);
#elif defined(TOO_MANY_FIELDS)
struct T {
    good::Point a[129];
};
DRIVELINE_PLAIN(T, "test/T", a);
#endif
}  // namespace bad

#if defined(OTHER_NAMESPACE)
namespace elsewhere {
struct T {
    float a;
};
}  // namespace elsewhere
DRIVELINE_PLAIN(elsewhere::T, "test/T", a);
#endif
