(ns sessions
  (:require ["crypto" :refer [randomBytes]]))

(def names (atom {}))

(defn begin [name]
  (let [token (.toString (randomBytes 16) "hex")]
    (swap! names assoc token name)
    token))

(defn owner [token]
  (get @names token))

(defn end [token]
  (swap! names assoc "" (get @names token)))
