(ns oxo
  "The rules, and the page that shows a board."
  (:require [clojure.string :as str]))

(def lines [[0 1 2] [3 4 5] [6 7 8] [0 3 6] [1 4 7] [2 5 8] [0 4 8] [2 4 6]])
(def empty-board (vec (repeat 9 "")))

(defn next-mark [squares]
  (if (even? (count (remove #{""} squares))) "X" "O"))

(defn winner [squares]
  (some (fn [line] (some #(when (every? #{%} (map squares line)) %) ["X" "O"])) lines))

(defn status [squares]
  (let [won (winner squares)]
    (cond
      won (str won " wins")
      (some #{""} squares) (str (next-mark squares) " to move")
      :else "Draw")))

(defn play [squares at]
  (if (and (= "" (get squares at)) (not (winner squares)))
    (assoc squares at (next-mark squares))
    squares))

(defn square [at mark]
  (str "<button name=\"at\" value=\"" at "\">" mark "</button>"))

(defn page [squares]
  (str "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Three in a row</title>"
       "<link rel=\"icon\" href=\"data:,\"><style>.board { display: grid;"
       " grid-template-columns: repeat(3, 70px); grid-auto-rows: 70px }</style></head>"
       "<body><p>" (status squares) "</p><form method=\"post\" action=\"/move\" class=\"board\">"
       (str/join (map-indexed square squares)) "</form>"
       "<form method=\"post\" action=\"/new\"><button>New game</button></form></body></html>"))
