// SPDX-License-Identifier: Apache-2.0
#include "street.hpp"

#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>

namespace street {
namespace {

constexpr std::size_t most_points = 10'000'000;
constexpr double no_return_m = 0.5;
/// Distance up to which the generated street is seen in all detail.
constexpr double dense_m = 4;

/// A street of 80 m along y with houses, lamp posts and parked cars, seen from its middle by a
/// scanner 1.8 m above it.
std::vector<Point> made_up() {
    std::mt19937 random(20'260);
    std::vector<Point> points;
    // Distributions differ between standard libraries; this function does not.
    const auto share = [&] { return static_cast<double>(random()) / 4294967296.0; };
    const auto add = [&](double along, double aside, double up) {
        // A scanner's beams spread: at twice the distance, a surface has a quarter of the points.
        const double far = std::max(dense_m, std::hypot(along, aside));
        if (share() > dense_m * dense_m / (far * far)) return;
        points.push_back({static_cast<float>(aside), static_cast<float>(-along),
                          static_cast<float>(up - 1.8), static_cast<float>(20 + 60 * share())});
    };
    const auto wall = [&](double x0, double y0, double x1, double y1, double height, int count) {
        for (int i = 0; i < count; ++i) {
            const double s = share();
            add(x0 + s * (x1 - x0), y0 + s * (y1 - y0), height * share());
        }
    };
    for (int i = 0; i < 150'000; ++i) add(-40 + 80 * share(), -6 + 12 * share(), 0.02 * share());
    // Houses of different widths and depths: along one long wall, the position could not be
    // determined.
    for (double side : {-1.0, 1.0}) {
        for (double x = -40; x < 40;) {
            const double width = 4 + 6 * share(), y = side * (6.5 + 3 * share()),
                         height = 4 + 3 * share();
            wall(x, y, x + width, y, height, static_cast<int>(1500 * width));
            wall(x + width, y, x + width, side * 10, height, 3000);
            x += width + (share() < 0.3 ? 2.5 : 0.0);
        }
        for (double x = -38 + 3 * share(); x < 40; x += 9 + 4 * share()) {
            for (int i = 0; i < 900; ++i) {
                const double angle = 6.2832 * share();
                add(x + 0.12 * std::cos(angle), side * 5.4 + 0.12 * std::sin(angle), 5 * share());
            }
        }
        for (double x = -35 + 5 * share(); x < 38; x += 8 + 9 * share()) {
            wall(x, side * 3.2, x + 4.3, side * 3.2, 1.4, 4000);
            wall(x, side * 3.2, x, side * 5.0, 1.4, 1500);
            wall(x + 4.3, side * 3.2, x + 4.3, side * 5.0, 1.4, 1500);
        }
    }
    return points;
}

std::vector<Point> from_ply(const std::string& path) {
    const auto wrong = [&](const std::string& what) {
        return std::runtime_error("the cloud " + path + " " + what +
                                  ": it must be a PLY file, 'binary_little_endian 1.0', whose "
                                  "vertices begin with float x, y, z");
    };
    std::ifstream file(path, std::ios::binary);
    if (!file)
        throw std::runtime_error(
            "the cloud " + path +
            " cannot be opened: give a PLY file, or no path for a street that is made up");
    std::size_t count = 0, properties = 0;
    bool is_binary = false, is_vertex = false;
    std::string line;
    std::getline(file, line);
    if (line.rfind("ply", 0) != 0) throw wrong("is no PLY file");
    while (std::getline(file, line) && line.rfind("end_header", 0) != 0) {
        std::istringstream words(line);
        std::string first, second, third;
        words >> first >> second;
        if (first == "format") is_binary = second == "binary_little_endian";
        if (first == "element") {
            is_vertex = second == "vertex";
            if (is_vertex) words >> count;
        }
        if (first == "property" && is_vertex) {
            words >> third;
            static const char* const expected[] = {"x", "y", "z"};
            if (second != "float" && second != "float32")
                throw wrong("has the property '" + third + "' as " + second);
            if (properties < 3 && third != expected[properties])
                throw wrong("has '" + third + "' where '" + expected[properties] + "' is due");
            ++properties;
        }
    }
    if (!is_binary) throw wrong("is not binary and little-endian");
    if (properties < 3) throw wrong("has too few properties");
    if (count == 0 || count > most_points) throw wrong("has " + std::to_string(count) + " points");
    std::vector<float> values(count * properties);
    file.read(reinterpret_cast<char*>(values.data()),
              static_cast<std::streamsize>(values.size() * sizeof(float)));
    if (!file) throw wrong("ends too early");
    std::vector<Point> points;
    points.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        const float* v = &values[i * properties];
        if (!std::isfinite(v[0]) || !std::isfinite(v[1]) || !std::isfinite(v[2]) ||
            std::hypot(v[0], v[1], v[2]) < no_return_m)
            continue;
        points.push_back({v[0], v[1], v[2], properties > 3 ? v[3] : 0.0F});
    }
    return points;
}

}  // namespace

std::vector<Point> load(const std::string& path) {
    return path.empty() ? made_up() : from_ply(path);
}

}  // namespace street
